"""SyncGroup (key 14): versions 0-5, flexible from 4.

The leader sends the group's assignment, and each member fetches its own. v3 adds static members, v5
checks the protocol.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import bytes_, int16, int32, nullable_string, string


class SyncGroupRequestAssignment(Struct):
    member_id: string = ""
    assignment: bytes_ = b""


class SyncGroupRequest(Struct, versions=(0, 5), flexible_since=4):
    group_id: string = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: nullable_string = field(since=3, default=None)
    protocol_type: nullable_string = field(since=5, ignorable=True, default=None)
    protocol_name: nullable_string = field(since=5, ignorable=True, default=None)
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


class SyncGroupResponse(Struct, versions=(0, 5), flexible_since=4):
    throttle_time_ms: int32 = field(since=1, ignorable=True, default=0)
    error_code: int16 = 0
    protocol_type: nullable_string = field(since=5, ignorable=True, default=None)
    protocol_name: nullable_string = field(since=5, ignorable=True, default=None)
    assignment: bytes_ = b""
