"""ListOffsets (key 2): versions 1-11, flexible from 6.

Finds offsets by time or by a special timestamp. v2 adds the isolation level, v4 leader epochs;
later versions allow further special timestamps only.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int8, int16, int32, int64, string


class ListOffsetsPartition(Struct):
    partition_index: int32 = 0
    current_leader_epoch: int32 = field(since=4, ignorable=True, default=-1)
    timestamp: int64 = 0


class ListOffsetsTopic(Struct):
    name: string = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


class ListOffsetsRequest(Struct, versions=(1, 11), flexible_since=6):
    replica_id: int32 = 0
    isolation_level: int8 = field(since=2, default=0)
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: int32 = field(since=10, ignorable=True, default=0)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    timestamp: int64 = -1
    offset: int64 = -1
    leader_epoch: int32 = field(since=4, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: string = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


class ListOffsetsResponse(Struct, versions=(1, 11), flexible_since=6):
    throttle_time_ms: int32 = field(since=2, ignorable=True, default=0)
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
