"""OffsetFetch (key 9): versions 1-10, flexible from 6.

A group's committed offsets. From v2 on, null requests all topics; v7 can require stable offsets, v8
asks for many groups at once, v9 carries the member epoch, v10 names topics by id.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    ZERO_UUID,
    boolean,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    uuid,
)


class OffsetFetchRequestTopic(Struct):
    name: string = ""
    partition_indexes: list[int32] = field(default_factory=list)


class OffsetFetchRequestTopics(Struct):
    name: string = field(until=9, ignorable=True, default="")
    topic_id: uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    partition_indexes: list[int32] = field(default_factory=list)


class OffsetFetchRequestGroup(Struct):
    group_id: string = ""
    member_id: nullable_string = field(since=9, ignorable=True, default=None)
    member_epoch: int32 = field(since=9, ignorable=True, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)


class OffsetFetchRequest(Struct, versions=(1, 10), flexible_since=6):
    group_id: string = field(until=7, default="")
    topics: list[OffsetFetchRequestTopic] | None = field(
        until=7, nullable_since=2, default_factory=list
    )
    groups: list[OffsetFetchRequestGroup] = field(since=8, default_factory=list)
    require_stable: boolean = field(since=7, default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = field(since=5, ignorable=True, default=-1)
    metadata: nullable_string = ""
    error_code: int16 = 0


class OffsetFetchResponseTopic(Struct):
    name: string = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = -1
    metadata: nullable_string = ""
    error_code: int16 = 0


class OffsetFetchResponseTopics(Struct):
    name: string = field(until=9, ignorable=True, default="")
    topic_id: uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)


class OffsetFetchResponseGroup(Struct):
    group_id: string = ""
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: int16 = 0


class OffsetFetchResponse(Struct, versions=(1, 10), flexible_since=6):
    throttle_time_ms: int32 = field(since=3, ignorable=True, default=0)
    topics: list[OffsetFetchResponseTopic] = field(until=7, default_factory=list)
    error_code: int16 = field(since=2, until=7, ignorable=True, default=0)
    groups: list[OffsetFetchResponseGroup] = field(since=8, default_factory=list)
