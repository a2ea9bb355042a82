"""StreamsGroupDescribe (key 89): versions 0, flexible from 0.

State, topology and members of streams groups.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int16, int32, int64, nullable_string, string, uint16


class StreamsGroupDescribeRequest(Struct, versions=(0, 0), flexible_since=0):
    group_ids: list[string] = field(default_factory=list)
    include_authorized_operations: boolean = False


class StreamsGroupDescribeKeyValue(Struct):
    key: string = ""
    value: string = ""


class StreamsGroupDescribeTopicInfo(Struct):
    name: string = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: list[StreamsGroupDescribeKeyValue] = field(default_factory=list)


class StreamsGroupDescribeSubtopology(Struct):
    subtopology_id: string = ""
    source_topics: list[string] = field(default_factory=list)
    repartition_sink_topics: list[string] = field(default_factory=list)
    state_changelog_topics: list[StreamsGroupDescribeTopicInfo] = field(default_factory=list)
    repartition_source_topics: list[StreamsGroupDescribeTopicInfo] = field(default_factory=list)


class StreamsGroupDescribeTopology(Struct):
    epoch: int32 = 0
    subtopologies: list[StreamsGroupDescribeSubtopology] | None = None


class StreamsGroupDescribeEndpoint(Struct):
    host: string = ""
    port: uint16 = 0


class StreamsGroupDescribeTaskOffset(Struct):
    subtopology_id: string = ""
    partition: int32 = 0
    offset: int64 = 0


class StreamsGroupDescribeTaskIds(Struct):
    subtopology_id: string = ""
    partitions: list[int32] = field(default_factory=list)


class StreamsGroupDescribeAssignment(Struct):
    active_tasks: list[StreamsGroupDescribeTaskIds] = field(default_factory=list)
    standby_tasks: list[StreamsGroupDescribeTaskIds] = field(default_factory=list)
    warmup_tasks: list[StreamsGroupDescribeTaskIds] = field(default_factory=list)


class StreamsGroupDescribeMember(Struct):
    member_id: string = ""
    member_epoch: int32 = 0
    instance_id: nullable_string = None
    rack_id: nullable_string = None
    client_id: string = ""
    client_host: string = ""
    topology_epoch: int32 = 0
    process_id: string = ""
    user_endpoint: StreamsGroupDescribeEndpoint | None = None
    client_tags: list[StreamsGroupDescribeKeyValue] = field(default_factory=list)
    task_offsets: list[StreamsGroupDescribeTaskOffset] = field(default_factory=list)
    task_end_offsets: list[StreamsGroupDescribeTaskOffset] = field(default_factory=list)
    assignment: StreamsGroupDescribeAssignment = field(
        default_factory=StreamsGroupDescribeAssignment
    )
    target_assignment: StreamsGroupDescribeAssignment = field(
        default_factory=StreamsGroupDescribeAssignment
    )
    is_classic: boolean = False


class StreamsGroupDescribeDescribedGroup(Struct):
    error_code: int16 = 0
    error_message: nullable_string = None
    group_id: string = ""
    group_state: string = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    topology: StreamsGroupDescribeTopology | None = None
    members: list[StreamsGroupDescribeMember] = field(default_factory=list)
    authorized_operations: int32 = -2147483648


class StreamsGroupDescribeResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    groups: list[StreamsGroupDescribeDescribedGroup] = field(default_factory=list)
