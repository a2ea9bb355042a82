"""SaslHandshake (key 17): versions 0-1, none flexible.

Chooses the SASL mechanism. After v0 the tokens follow unframed, after v1 in SaslAuthenticate.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, string


class SaslHandshakeRequest(Struct, versions=(0, 1)):
    mechanism: string = ""


class SaslHandshakeResponse(Struct, versions=(0, 1)):
    error_code: int16 = 0
    mechanisms: list[string] = field(default_factory=list)
