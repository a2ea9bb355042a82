"""OffsetDelete (key 47): versions 0, none flexible.

Deletes a group's committed offsets.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import int16, int32, string


class OffsetDeleteRequestPartition(Struct):
    partition_index: int32 = 0


class OffsetDeleteRequestTopic(Struct):
    name: string = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


class OffsetDeleteRequest(Struct, versions=(0, 0)):
    group_id: string = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


class OffsetDeleteResponsePartition(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: string = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


class OffsetDeleteResponse(Struct, versions=(0, 0)):
    error_code: int16 = 0
    throttle_time_ms: int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)
