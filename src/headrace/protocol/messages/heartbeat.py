"""Heartbeat (key 12): versions 0-4, flexible from 4.

Keeps a classic group's member alive. v3 adds static members.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, nullable_string, string


class HeartbeatRequest(Struct, versions=(0, 4), flexible_since=4):
    group_id: string = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: nullable_string = field(since=3, default=None)


class HeartbeatResponse(Struct, versions=(0, 4), flexible_since=4):
    throttle_time_ms: int32 = field(since=1, ignorable=True, default=0)
    error_code: int16 = 0
