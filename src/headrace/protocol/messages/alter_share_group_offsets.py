"""AlterShareGroupOffsets (key 91): versions 0, flexible from 0.

Moves start offsets of share groups.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int16, int32, int64, nullable_string, string, uuid


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int32 = 0
    start_offset: int64 = 0


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: string = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(default_factory=list)


class AlterShareGroupOffsetsRequest(Struct, versions=(0, 0), flexible_since=0):
    group_id: string = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(default_factory=list)


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: string = ""
    topic_id: uuid = ZERO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(default_factory=list)


class AlterShareGroupOffsetsResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(default_factory=list)
