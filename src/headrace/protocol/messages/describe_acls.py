"""DescribeAcls (key 29): versions 1-3, flexible from 2.

Lists the ACLs that match a filter.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int8, int16, int32, nullable_string, string


class DescribeAclsRequest(Struct, versions=(1, 3), flexible_since=2):
    resource_type_filter: int8 = 0
    resource_name_filter: nullable_string = ""
    pattern_type_filter: int8 = 3
    principal_filter: nullable_string = ""
    host_filter: nullable_string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class AclDescription(Struct):
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DescribeAclsResource(Struct):
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 3
    acls: list[AclDescription] = field(default_factory=list)


class DescribeAclsResponse(Struct, versions=(1, 3), flexible_since=2):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)
