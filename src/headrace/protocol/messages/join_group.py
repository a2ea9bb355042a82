"""JoinGroup (key 11): versions 0-9, flexible from 6.

Joins a classic group; answered when all members have joined. v4 may first assign a member id, v5
adds static members.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, bytes_, int16, int32, nullable_string, string


class JoinGroupRequestProtocol(Struct):
    name: string = ""
    metadata: bytes_ = b""


class JoinGroupRequest(Struct, versions=(0, 9), flexible_since=6):
    group_id: string = ""
    session_timeout_ms: int32 = 0
    rebalance_timeout_ms: int32 = field(since=1, ignorable=True, default=-1)
    member_id: string = ""
    group_instance_id: nullable_string = field(since=5, default=None)
    protocol_type: string = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: nullable_string = field(since=8, ignorable=True, default=None)


class JoinGroupResponseMember(Struct):
    member_id: string = ""
    group_instance_id: nullable_string = field(since=5, ignorable=True, default=None)
    metadata: bytes_ = b""


class JoinGroupResponse(Struct, versions=(0, 9), flexible_since=6):
    throttle_time_ms: int32 = field(since=2, ignorable=True, default=0)
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: nullable_string = field(since=7, ignorable=True, default=None)
    protocol_name: nullable_string = field(nullable_since=7, default="")
    leader: string = ""
    skip_assignment: boolean = field(since=9, default=False)
    member_id: string = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)
