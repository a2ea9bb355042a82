"""ReadShareGroupStateSummary (key 87): versions 0-1, flexible from 0.

Start offsets of share partitions without their batches.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int16, int32, int64, nullable_string, string, uuid


class ReadShareGroupStateSummaryPartitionData(Struct):
    partition: int32 = 0
    leader_epoch: int32 = 0


class ReadStateSummaryData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[ReadShareGroupStateSummaryPartitionData] = field(default_factory=list)


class ReadShareGroupStateSummaryRequest(Struct, versions=(0, 1), flexible_since=0):
    group_id: string = ""
    topics: list[ReadStateSummaryData] = field(default_factory=list)


class ReadShareGroupStateSummaryPartitionResult(Struct):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: int32 = field(since=1, ignorable=True, default=-1)
    first_unfinished: int64 = field(since=0, tag=10_000, ignorable=True, default=-1)
    """The first offset whose delivery is not complete. Headrace's own; Kafka ignores it."""


class ReadStateSummaryResult(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[ReadShareGroupStateSummaryPartitionResult] = field(default_factory=list)


class ReadShareGroupStateSummaryResponse(Struct, versions=(0, 1), flexible_since=0):
    results: list[ReadStateSummaryResult] = field(default_factory=list)
