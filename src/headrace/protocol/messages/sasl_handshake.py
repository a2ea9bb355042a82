"""SaslHandshake (key 17): versions 0-1, none flexible."""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, string


class SaslHandshakeRequest(Struct, versions=(0, 1)):
    mechanism: string = ""


class SaslHandshakeResponse(Struct, versions=(0, 1)):
    error_code: int16 = 0
    mechanisms: list[string] = field(default_factory=list)
