"""StreamsGroupHeartbeat (key 88): versions 0, flexible from 0.

Membership in a streams group (KIP-1071).
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    boolean,
    int8,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    uint16,
)


class StreamsGroupHeartbeatKeyValue(Struct):
    key: string = ""
    value: string = ""


class StreamsGroupHeartbeatTopicInfo(Struct):
    name: string = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: list[StreamsGroupHeartbeatKeyValue] = field(default_factory=list)


class CopartitionGroup(Struct):
    source_topics: list[int16] = field(default_factory=list)
    source_topic_regex: list[int16] = field(default_factory=list)
    repartition_source_topics: list[int16] = field(default_factory=list)


class StreamsGroupHeartbeatSubtopology(Struct):
    subtopology_id: string = ""
    source_topics: list[string] = field(default_factory=list)
    source_topic_regex: list[string] = field(default_factory=list)
    state_changelog_topics: list[StreamsGroupHeartbeatTopicInfo] = field(default_factory=list)
    repartition_sink_topics: list[string] = field(default_factory=list)
    repartition_source_topics: list[StreamsGroupHeartbeatTopicInfo] = field(default_factory=list)
    copartition_groups: list[CopartitionGroup] = field(default_factory=list)


class StreamsGroupHeartbeatTopology(Struct):
    epoch: int32 = 0
    subtopologies: list[StreamsGroupHeartbeatSubtopology] = field(default_factory=list)


class StreamsGroupHeartbeatRequestTaskIds(Struct):
    subtopology_id: string = ""
    partitions: list[int32] = field(default_factory=list)


class StreamsGroupHeartbeatRequestEndpoint(Struct):
    host: string = ""
    port: uint16 = 0


class StreamsGroupHeartbeatTaskOffset(Struct):
    subtopology_id: string = ""
    partition: int32 = 0
    offset: int64 = 0


class StreamsGroupHeartbeatRequest(Struct, versions=(0, 0), flexible_since=0):
    group_id: string = ""
    member_id: string = ""
    member_epoch: int32 = 0
    endpoint_information_epoch: int32 = 0
    instance_id: nullable_string = None
    rack_id: nullable_string = None
    rebalance_timeout_ms: int32 = -1
    topology: StreamsGroupHeartbeatTopology | None = None
    active_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = None
    standby_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = None
    warmup_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = None
    process_id: nullable_string = None
    user_endpoint: StreamsGroupHeartbeatRequestEndpoint | None = None
    client_tags: list[StreamsGroupHeartbeatKeyValue] | None = None
    task_offsets: list[StreamsGroupHeartbeatTaskOffset] | None = None
    task_end_offsets: list[StreamsGroupHeartbeatTaskOffset] | None = None
    shutdown_application: boolean = False


class Status(Struct):
    status_code: int8 = 0
    status_detail: string = ""


class StreamsGroupHeartbeatResponseTaskIds(Struct):
    subtopology_id: string = ""
    partitions: list[int32] = field(default_factory=list)


class StreamsGroupHeartbeatResponseEndpoint(Struct):
    host: string = ""
    port: uint16 = 0


class StreamsGroupHeartbeatTopicPartition(Struct):
    topic: string = ""
    partitions: list[int32] = field(default_factory=list)


class EndpointToPartitions(Struct):
    user_endpoint: StreamsGroupHeartbeatResponseEndpoint = field(
        default_factory=StreamsGroupHeartbeatResponseEndpoint
    )
    active_partitions: list[StreamsGroupHeartbeatTopicPartition] = field(default_factory=list)
    standby_partitions: list[StreamsGroupHeartbeatTopicPartition] = field(default_factory=list)


class StreamsGroupHeartbeatResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    member_id: string = ""
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    acceptable_recovery_lag: int32 = 0
    task_offset_interval_ms: int32 = 0
    status: list[Status] | None = field(default_factory=list)
    active_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = None
    standby_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = None
    warmup_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = None
    endpoint_information_epoch: int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
