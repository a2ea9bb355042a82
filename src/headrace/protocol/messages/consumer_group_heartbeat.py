"""ConsumerGroupHeartbeat (key 68): versions 0-1, flexible from 0.

Membership in a KIP-848 group: joins, reports, receives assignments and leaves. v1 adds the
regular expression and member ids made by the client.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int16, int32, nullable_string, string, uuid


class ConsumerGroupHeartbeatRequestTopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = field(default_factory=list)


class ConsumerGroupHeartbeatRequest(Struct, versions=(0, 1), flexible_since=0):
    group_id: string = ""
    member_id: string = ""
    member_epoch: int32 = 0
    instance_id: nullable_string = None
    rack_id: nullable_string = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: list[string] | None = None
    subscribed_topic_regex: nullable_string = field(since=1, default=None)
    server_assignor: nullable_string = None
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None


class ConsumerGroupHeartbeatResponseTopicPartitions(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = field(default_factory=list)


class ConsumerGroupHeartbeatAssignment(Struct):
    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = field(
        default_factory=list
    )


class ConsumerGroupHeartbeatResponse(Struct, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    member_id: nullable_string = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: ConsumerGroupHeartbeatAssignment | None = None
