"""OffsetCommit (key 8): versions 2-10, flexible from 8.

Commits a group's offsets. v9 serves KIP-848 members (the generation is a member epoch), v10 names
topics by id.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int16, int32, int64, nullable_string, string, uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = field(since=6, ignorable=True, default=-1)
    committed_metadata: nullable_string = ""


class OffsetCommitRequestTopic(Struct):
    name: string = field(until=9, ignorable=True, default="")
    topic_id: uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


class OffsetCommitRequest(Struct, versions=(2, 10), flexible_since=8):
    group_id: string = ""
    generation_id_or_member_epoch: int32 = -1
    member_id: string = ""
    group_instance_id: nullable_string = field(since=7, default=None)
    retention_time_ms: int64 = field(until=4, ignorable=True, default=-1)
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


class OffsetCommitResponsePartition(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: string = field(until=9, ignorable=True, default="")
    topic_id: uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


class OffsetCommitResponse(Struct, versions=(2, 10), flexible_since=8):
    throttle_time_ms: int32 = field(since=3, ignorable=True, default=0)
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
