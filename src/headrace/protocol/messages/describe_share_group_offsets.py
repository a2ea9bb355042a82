"""DescribeShareGroupOffsets (key 90): versions 0-1, flexible from 0.

Start offsets of share groups. v1 adds the lag. Fields with tags from 10,000 on are Headrace's own;
Kafka ignores them in a request. A response has locks only if the request asks for them.
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


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: string = ""
    partitions: list[int32] = field(default_factory=list)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: string = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(default_factory=list)


class DescribeShareGroupOffsetsRequest(Struct, versions=(0, 1), flexible_since=0):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)
    include_locks: boolean = field(since=0, tag=10_000, ignorable=True, default=False)
    locks_only: boolean = field(since=0, tag=10_001, ignorable=True, default=False)
    """Only the locks, and only of partitions that this broker leads; brokers ask each other so."""


class DescribeShareGroupOffsetsLock(Struct):
    """Consecutive offsets that one member has acquired."""

    first_offset: int64 = 0
    last_offset: int64 = 0
    member_id: string = ""
    delivery_count: int16 = 0
    expires_ms: int64 = 0
    """-1 while an acknowledgement is being stored."""


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32 = 0
    start_offset: int64 = 0
    leader_epoch: int32 = 0
    lag: int64 = field(since=1, ignorable=True, default=-1)
    lag_ms: int64 = field(since=1, tag=10_000, ignorable=True, default=-1)
    """The age of the first record that is not finished. Headrace's own; Kafka ignores it."""
    acquired_records: int64 = field(since=0, tag=10_001, ignorable=True, default=-1)
    """-1 if the request did not ask for locks, or the leader did not answer."""
    locks: list[DescribeShareGroupOffsetsLock] = field(
        since=0, tag=10_002, ignorable=True, default_factory=list
    )
    omitted_locks: int32 = field(since=0, tag=10_003, ignorable=True, default=0)
    available_records: int64 = field(since=0, tag=10_004, ignorable=True, default=-1)
    """Like the next ones, -1 if the leader has not loaded the share partition."""
    acknowledged_records: int64 = field(since=0, tag=10_005, ignorable=True, default=-1)
    archiving_records: int64 = field(since=0, tag=10_006, ignorable=True, default=-1)
    archived_records: int64 = field(since=0, tag=10_007, ignorable=True, default=-1)
    error_code: int16 = 0
    error_message: nullable_string = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: string = ""
    topic_id: uuid = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(default_factory=list)


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: string = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)
    error_code: int16 = 0
    error_message: nullable_string = None


class DescribeShareGroupOffsetsResponse(Struct, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)
