"""DescribeGroups (key 15): versions 0-6, flexible from 5.

State and members of classic groups. v4 shows static members, v6 reports a missing group as an
error.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, bytes_, int16, int32, nullable_string, string


class DescribeGroupsRequest(Struct, versions=(0, 6), flexible_since=5):
    groups: list[string] = field(default_factory=list)
    include_authorized_operations: boolean = field(since=3, default=False)


class DescribedGroupMember(Struct):
    member_id: string = ""
    group_instance_id: nullable_string = field(since=4, ignorable=True, default=None)
    client_id: string = ""
    client_host: string = ""
    member_metadata: bytes_ = b""
    member_assignment: bytes_ = b""


class DescribeGroupsDescribedGroup(Struct):
    error_code: int16 = 0
    error_message: nullable_string = field(since=6, default=None)
    group_id: string = ""
    group_state: string = ""
    protocol_type: string = ""
    protocol_data: string = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: int32 = field(since=3, default=-2147483648)


class DescribeGroupsResponse(Struct, versions=(0, 6), flexible_since=5):
    throttle_time_ms: int32 = field(since=1, ignorable=True, default=0)
    groups: list[DescribeGroupsDescribedGroup] = field(default_factory=list)
