"""DescribeDelegationToken (key 41): versions 1-3, flexible from 2.

Lists delegation tokens. v3 adds their requesters.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import bytes_, int16, int32, int64, string


class DescribeDelegationTokenOwner(Struct):
    principal_type: string = ""
    principal_name: string = ""


class DescribeDelegationTokenRequest(Struct, versions=(1, 3), flexible_since=2):
    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list)


class DescribedDelegationTokenRenewer(Struct):
    principal_type: string = ""
    principal_name: string = ""


class DescribedDelegationToken(Struct):
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: string = field(since=3, default="")
    token_requester_principal_name: string = field(since=3, default="")
    issue_timestamp: int64 = 0
    expiry_timestamp: int64 = 0
    max_timestamp: int64 = 0
    token_id: string = ""
    hmac: bytes_ = b""
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)


class DescribeDelegationTokenResponse(Struct, versions=(1, 3), flexible_since=2):
    error_code: int16 = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: int32 = 0
