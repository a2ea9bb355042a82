"""OffsetForLeaderEpoch (key 23): versions 2-4, flexible from 4.

The end offset of a leader epoch, by which clients detect truncation. v3 adds the replica id.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, int64, string


class OffsetForLeaderPartition(Struct):
    partition: int32 = 0
    current_leader_epoch: int32 = -1
    leader_epoch: int32 = 0


class OffsetForLeaderTopic(Struct):
    topic: string = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


class OffsetForLeaderEpochRequest(Struct, versions=(2, 4), flexible_since=4):
    replica_id: int32 = field(since=3, ignorable=True, default=-2)
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


class OffsetForLeaderEpochEpochEndOffset(Struct):
    error_code: int16 = 0
    partition: int32 = 0
    leader_epoch: int32 = -1
    end_offset: int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: string = ""
    partitions: list[OffsetForLeaderEpochEpochEndOffset] = field(default_factory=list)


class OffsetForLeaderEpochResponse(Struct, versions=(2, 4), flexible_since=4):
    throttle_time_ms: int32 = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)
