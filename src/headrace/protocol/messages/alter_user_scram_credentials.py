"""AlterUserScramCredentials (key 51): versions 0, flexible from 0.

Sets and removes SCRAM credentials.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import bytes_, int8, int16, int32, nullable_string, string


class ScramCredentialDeletion(Struct):
    name: string = ""
    mechanism: int8 = 0


class ScramCredentialUpsertion(Struct):
    name: string = ""
    mechanism: int8 = 0
    iterations: int32 = 0
    salt: bytes_ = b""
    salted_password: bytes_ = b""


class AlterUserScramCredentialsRequest(Struct, versions=(0, 0), flexible_since=0):
    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


class AlterUserScramCredentialsResult(Struct):
    user: string = ""
    error_code: int16 = 0
    error_message: nullable_string = ""


class AlterUserScramCredentialsResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)
