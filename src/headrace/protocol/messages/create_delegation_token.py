"""CreateDelegationToken (key 38): versions 1-3, flexible from 2.

Creates a delegation token. v3 can name another owner.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import bytes_, int16, int32, int64, nullable_string, string


class CreatableRenewers(Struct):
    principal_type: string = ""
    principal_name: string = ""


class CreateDelegationTokenRequest(Struct, versions=(1, 3), flexible_since=2):
    owner_principal_type: nullable_string = field(since=3, default="")
    owner_principal_name: nullable_string = field(since=3, default="")
    renewers: list[CreatableRenewers] = field(default_factory=list)
    max_lifetime_ms: int64 = 0


class CreateDelegationTokenResponse(Struct, versions=(1, 3), flexible_since=2):
    error_code: int16 = 0
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: string = field(since=3, default="")
    token_requester_principal_name: string = field(since=3, default="")
    issue_timestamp_ms: int64 = 0
    expiry_timestamp_ms: int64 = 0
    max_timestamp_ms: int64 = 0
    token_id: string = ""
    hmac: bytes_ = b""
    throttle_time_ms: int32 = 0
