"""DeleteShareGroupState (key 86): versions 0, flexible from 0.

Drops stored state of share partitions; sent by group coordinators.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int16, int32, nullable_string, string, uuid


class DeleteShareGroupStatePartitionData(Struct):
    partition: int32 = 0


class DeleteStateData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[DeleteShareGroupStatePartitionData] = field(default_factory=list)


class DeleteShareGroupStateRequest(Struct, versions=(0, 0), flexible_since=0):
    group_id: string = ""
    topics: list[DeleteStateData] = field(default_factory=list)


class DeleteShareGroupStatePartitionResult(Struct):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None


class DeleteStateResult(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[DeleteShareGroupStatePartitionResult] = field(default_factory=list)


class DeleteShareGroupStateResponse(Struct, versions=(0, 0), flexible_since=0):
    results: list[DeleteStateResult] = field(default_factory=list)
