"""LeaveGroup (key 13): versions 0-5, flexible from 4.

Leaves a classic group. v3 removes many members at once.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, nullable_string, string


class MemberIdentity(Struct):
    member_id: string = ""
    group_instance_id: nullable_string = None
    reason: nullable_string = field(since=5, ignorable=True, default=None)


class LeaveGroupRequest(Struct, versions=(0, 5), flexible_since=4):
    group_id: string = ""
    member_id: string = field(until=2, default="")
    members: list[MemberIdentity] = field(since=3, default_factory=list)


class MemberResponse(Struct):
    member_id: string = ""
    group_instance_id: nullable_string = ""
    error_code: int16 = 0


class LeaveGroupResponse(Struct, versions=(0, 5), flexible_since=4):
    throttle_time_ms: int32 = field(since=1, ignorable=True, default=0)
    error_code: int16 = 0
    members: list[MemberResponse] = field(since=3, default_factory=list)
