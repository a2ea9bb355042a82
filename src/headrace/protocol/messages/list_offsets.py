"""ListOffsets (key 2): versions 1-11, flexible from 6.

Finds offsets by time or by a special timestamp. v2 adds the isolation level, v4 leader epochs;
later versions allow further special timestamps only.

Fields with tags from 10,000 on are Headrace's own; Kafka ignores them. A request may name positions
of consumers in a partition. For each of them the leader returns the next record that the consumer
has to read, with its timestamp: this is the consumer's lag in records and in time.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int8, int16, int32, int64, string


class ConsumerPosition(Struct):
    offset: int64 = 0
    skip_aborted: boolean = False
    """Whether records of aborted transactions do not count."""


class ListOffsetsPartition(Struct):
    partition_index: int32 = 0
    current_leader_epoch: int32 = field(since=4, ignorable=True, default=-1)
    timestamp: int64 = 0
    positions: list[ConsumerPosition] = field(
        since=6, tag=10_000, ignorable=True, default_factory=list
    )


class ListOffsetsTopic(Struct):
    name: string = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


class ListOffsetsRequest(Struct, versions=(1, 11), flexible_since=6):
    replica_id: int32 = 0
    isolation_level: int8 = field(since=2, default=0)
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: int32 = field(since=10, ignorable=True, default=0)


class NextRecordOfPosition(Struct):
    offset: int64 = -1
    """-1: there is no record to read."""
    timestamp: int64 = -1


class ListOffsetsPartitionResponse(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    timestamp: int64 = -1
    offset: int64 = -1
    leader_epoch: int32 = field(since=4, default=-1)
    next_records: list[NextRecordOfPosition] = field(
        since=6, tag=10_000, ignorable=True, default_factory=list
    )
    """For each position of the request, in its order; none if the log could not be read."""
    log_start_offset: int64 = field(since=6, tag=10_001, ignorable=True, default=-1)
    high_watermark: int64 = field(since=6, tag=10_002, ignorable=True, default=-1)
    last_stable_offset: int64 = field(since=6, tag=10_003, ignorable=True, default=-1)
    open_producer_id: int64 = field(since=6, tag=10_004, ignorable=True, default=-1)
    """The producer of the earliest open transaction."""
    open_since_ms: int64 = field(since=6, tag=10_005, ignorable=True, default=-1)
    """The timestamp of the first record of that transaction."""


class ListOffsetsTopicResponse(Struct):
    name: string = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


class ListOffsetsResponse(Struct, versions=(1, 11), flexible_since=6):
    throttle_time_ms: int32 = field(since=2, ignorable=True, default=0)
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
