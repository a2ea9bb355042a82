"""DescribeLogDirs (key 35): versions 1-5, flexible from 2.

Log directories and the replicas in them. v3 adds an error for the whole answer, v4 the space of
the volume, v5 whether a directory is cordoned. Fields with tags from 10,000 on are Headrace's own;
Kafka ignores them in a request, and a response has them only if the request asks for them.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, int16, int32, int64, string


class DescribableLogDirTopic(Struct):
    topic: string = ""
    partitions: list[int32] = field(default_factory=list)


class DescribeLogDirsRequest(Struct, versions=(1, 5), flexible_since=2):
    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)
    include_followers: boolean = field(since=2, tag=10_000, ignorable=True, default=False)


class DescribeLogDirsFollower(Struct):
    """A follower that is not in sync, as the leader of its partition sees it."""

    broker_id: int32 = 0
    log_end_offset: int64 = -1
    """-1 if it has not fetched from this leader."""
    lag_bytes: int64 = -1
    out_of_sync_ms: int64 = -1
    is_minimum: boolean = False
    """Whether the follower was already out of sync when this leader took over."""


class DescribeLogDirsPartition(Struct):
    partition_index: int32 = 0
    partition_size: int64 = 0
    offset_lag: int64 = 0
    is_future_key: boolean = False
    log_end_offset: int64 = field(since=2, tag=10_000, ignorable=True, default=-1)
    """The leader's."""
    followers: list[DescribeLogDirsFollower] = field(
        since=2, tag=10_001, ignorable=True, default_factory=list
    )
    """The followers that are not in sync, if this broker leads the partition."""


class DescribeLogDirsTopic(Struct):
    name: string = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


class DescribeLogDirsResult(Struct):
    error_code: int16 = 0
    log_dir: string = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: int64 = field(since=4, ignorable=True, default=-1)
    usable_bytes: int64 = field(since=4, ignorable=True, default=-1)
    is_cordoned: boolean = field(since=5, ignorable=True, default=False)


class DescribeLogDirsResponse(Struct, versions=(1, 5), flexible_since=2):
    throttle_time_ms: int32 = 0
    error_code: int16 = field(since=3, ignorable=True, default=0)
    results: list[DescribeLogDirsResult] = field(default_factory=list)
