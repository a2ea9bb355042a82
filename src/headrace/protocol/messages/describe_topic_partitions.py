"""DescribeTopicPartitions (key 75): versions 0, flexible from 0.

Topics and partitions page by page.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, boolean, int16, int32, nullable_string, string, uuid


class DescribeTopicPartitionsTopicRequest(Struct):
    name: string = ""


class DescribeTopicPartitionsRequestCursor(Struct):
    topic_name: string = ""
    partition_index: int32 = 0


class DescribeTopicPartitionsRequest(Struct, versions=(0, 0), flexible_since=0):
    topics: list[DescribeTopicPartitionsTopicRequest] = field(default_factory=list)
    response_partition_limit: int32 = 2000
    cursor: DescribeTopicPartitionsRequestCursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = -1
    replica_nodes: list[int32] = field(default_factory=list)
    isr_nodes: list[int32] = field(default_factory=list)
    eligible_leader_replicas: list[int32] | None = None
    last_known_elr: list[int32] | None = None
    offline_replicas: list[int32] = field(default_factory=list)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int16 = 0
    name: nullable_string = ""
    topic_id: uuid = ZERO_UUID
    is_internal: boolean = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: int32 = -2147483648


class DescribeTopicPartitionsResponseCursor(Struct):
    topic_name: string = ""
    partition_index: int32 = 0


class DescribeTopicPartitionsResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: DescribeTopicPartitionsResponseCursor | None = None
