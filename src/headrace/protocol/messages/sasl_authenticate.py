"""SaslAuthenticate (key 36): versions 0-2, flexible from 2.

One step of the SASL exchange. v1 answers with the session's lifetime.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import bytes_, int16, int64, nullable_string


class SaslAuthenticateRequest(Struct, versions=(0, 2), flexible_since=2):
    auth_bytes: bytes_ = b""


class SaslAuthenticateResponse(Struct, versions=(0, 2), flexible_since=2):
    error_code: int16 = 0
    error_message: nullable_string = ""
    auth_bytes: bytes_ = b""
    session_lifetime_ms: int64 = field(since=1, ignorable=True, default=0)
