"""ShareGroupHeartbeat (key 76): versions 1, flexible from 0.

Membership in a share group (KIP-932).
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int16, int32, nullable_string, string, uuid


class ShareGroupHeartbeatRequest(Struct, versions=(1, 1), flexible_since=0):
    group_id: string = ""
    member_id: string = ""
    member_epoch: int32 = 0
    rack_id: nullable_string = None
    subscribed_topic_names: list[string] | None = None


class ShareGroupHeartbeatTopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = field(default_factory=list)


class ShareGroupHeartbeatAssignment(Struct):
    topic_partitions: list[ShareGroupHeartbeatTopicPartitions] = field(default_factory=list)


class ShareGroupHeartbeatResponse(Struct, versions=(1, 1), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    member_id: nullable_string = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: ShareGroupHeartbeatAssignment | None = None
