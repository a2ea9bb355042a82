"""DescribeUserScramCredentials (key 50): versions 0, flexible from 0.

Lists users' SCRAM credentials, without the secrets.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int8, int16, int32, nullable_string, string


class UserName(Struct):
    name: string = ""


class DescribeUserScramCredentialsRequest(Struct, versions=(0, 0), flexible_since=0):
    users: list[UserName] | None = field(default_factory=list)


class CredentialInfo(Struct):
    mechanism: int8 = 0
    iterations: int32 = 0


class DescribeUserScramCredentialsResult(Struct):
    user: string = ""
    error_code: int16 = 0
    error_message: nullable_string = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


class DescribeUserScramCredentialsResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)
