"""TxnOffsetCommit (key 28): versions 0-5, flexible from 3.

Commits a group's offsets as part of a transaction. v3 carries the member and its generation.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, int64, nullable_string, string


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = field(since=2, ignorable=True, default=-1)
    committed_metadata: nullable_string = ""


class TxnOffsetCommitRequestTopic(Struct):
    name: string = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


class TxnOffsetCommitRequest(Struct, versions=(0, 5), flexible_since=3):
    transactional_id: string = ""
    group_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    generation_id: int32 = field(since=3, default=-1)
    member_id: string = field(since=3, default="")
    group_instance_id: nullable_string = field(since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: string = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


class TxnOffsetCommitResponse(Struct, versions=(0, 5), flexible_since=3):
    throttle_time_ms: int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)
