"""ExpireDelegationToken (key 40): versions 1-2, flexible from 2.

Ends a delegation token, now or later.
"""

from headrace.protocol.struct import Struct
from headrace.protocol.types import bytes_, int16, int32, int64


class ExpireDelegationTokenRequest(Struct, versions=(1, 2), flexible_since=2):
    hmac: bytes_ = b""
    expiry_time_period_ms: int64 = 0


class ExpireDelegationTokenResponse(Struct, versions=(1, 2), flexible_since=2):
    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    throttle_time_ms: int32 = 0
