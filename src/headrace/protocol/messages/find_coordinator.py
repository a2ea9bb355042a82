"""FindCoordinator (key 10): versions 0-6, flexible from 3.

Finds the coordinator of a group, a transactional id or a share partition. v4 asks for many keys at
once.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int8, int16, int32, nullable_string, string


class FindCoordinatorRequest(Struct, versions=(0, 6), flexible_since=3):
    key: string = field(until=3, default="")
    key_type: int8 = field(since=1, default=0)
    coordinator_keys: list[string] = field(since=4, default_factory=list)


class Coordinator(Struct):
    key: string = ""
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = ""


class FindCoordinatorResponse(Struct, versions=(0, 6), flexible_since=3):
    throttle_time_ms: int32 = field(since=1, ignorable=True, default=0)
    error_code: int16 = field(until=3, default=0)
    error_message: nullable_string = field(since=1, until=3, ignorable=True, default="")
    node_id: int32 = field(until=3, default=0)
    host: string = field(until=3, default="")
    port: int32 = field(until=3, default=0)
    coordinators: list[Coordinator] = field(since=4, default_factory=list)
