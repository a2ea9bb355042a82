"""DeleteAcls (key 31): versions 1-3, flexible from 2.

Removes the ACLs that match filters.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int8, int16, int32, nullable_string, string


class DeleteAclsFilter(Struct):
    resource_type_filter: int8 = 0
    resource_name_filter: nullable_string = ""
    pattern_type_filter: int8 = 3
    principal_filter: nullable_string = ""
    host_filter: nullable_string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DeleteAclsRequest(Struct, versions=(1, 3), flexible_since=2):
    filters: list[DeleteAclsFilter] = field(default_factory=list)


class DeleteAclsMatchingAcl(Struct):
    error_code: int16 = 0
    error_message: nullable_string = ""
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 3
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DeleteAclsFilterResult(Struct):
    error_code: int16 = 0
    error_message: nullable_string = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


class DeleteAclsResponse(Struct, versions=(1, 3), flexible_since=2):
    throttle_time_ms: int32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)
