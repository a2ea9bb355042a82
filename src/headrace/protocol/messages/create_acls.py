"""CreateAcls (key 30): versions 1-3, flexible from 2.

Adds ACLs.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int8, int16, int32, nullable_string, string


class AclCreation(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    resource_pattern_type: int8 = 3
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class CreateAclsRequest(Struct, versions=(1, 3), flexible_since=2):
    creations: list[AclCreation] = field(default_factory=list)


class AclCreationResult(Struct):
    error_code: int16 = 0
    error_message: nullable_string = ""


class CreateAclsResponse(Struct, versions=(1, 3), flexible_since=2):
    throttle_time_ms: int32 = 0
    results: list[AclCreationResult] = field(default_factory=list)
