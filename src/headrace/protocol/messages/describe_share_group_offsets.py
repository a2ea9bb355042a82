"""DescribeShareGroupOffsets (key 90): versions 0-1, flexible from 0.

Start offsets of share groups. v1 adds the lag.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int16, int32, int64, nullable_string, string, uuid


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: string = ""
    partitions: list[int32] = field(default_factory=list)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: string = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(default_factory=list)


class DescribeShareGroupOffsetsRequest(Struct, versions=(0, 1), flexible_since=0):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32 = 0
    start_offset: int64 = 0
    leader_epoch: int32 = 0
    lag: int64 = field(since=1, ignorable=True, default=-1)
    lag_ms: int64 = field(since=1, tag=10_000, ignorable=True, default=-1)
    """The age of the first record that is not finished. Headrace's own; Kafka ignores it."""
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
