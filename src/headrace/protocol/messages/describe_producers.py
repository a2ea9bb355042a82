"""DescribeProducers (key 61): versions 0, flexible from 0.

The active producers of partitions.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, int64, nullable_string, string


class DescribeProducersTopicRequest(Struct):
    name: string = ""
    partition_indexes: list[int32] = field(default_factory=list)


class DescribeProducersRequest(Struct, versions=(0, 0), flexible_since=0):
    topics: list[DescribeProducersTopicRequest] = field(default_factory=list)


class ProducerState(Struct):
    producer_id: int64 = 0
    producer_epoch: int32 = 0
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32 = 0
    current_txn_start_offset: int64 = -1


class PartitionResponse(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    active_producers: list[ProducerState] = field(default_factory=list)


class TopicResponse(Struct):
    name: string = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


class DescribeProducersResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    topics: list[TopicResponse] = field(default_factory=list)
