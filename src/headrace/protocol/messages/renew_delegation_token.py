"""RenewDelegationToken (key 39): versions 1-2, flexible from 2.

Extends a delegation token.
"""

from headrace.protocol.struct import Struct
from headrace.protocol.types import bytes_, int16, int32, int64


class RenewDelegationTokenRequest(Struct, versions=(1, 2), flexible_since=2):
    hmac: bytes_ = b""
    renew_period_ms: int64 = 0


class RenewDelegationTokenResponse(Struct, versions=(1, 2), flexible_since=2):
    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    throttle_time_ms: int32 = 0
