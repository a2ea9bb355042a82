"""InitializeShareGroupState (key 83): versions 0, flexible from 0.

Starts the stored state of share partitions; sent by group coordinators.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int16, int32, int64, nullable_string, string, uuid


class InitializeShareGroupStatePartitionData(Struct):
    partition: int32 = 0
    state_epoch: int32 = 0
    start_offset: int64 = 0


class InitializeStateData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[InitializeShareGroupStatePartitionData] = field(default_factory=list)


class InitializeShareGroupStateRequest(Struct, versions=(0, 0), flexible_since=0):
    group_id: string = ""
    topics: list[InitializeStateData] = field(default_factory=list)


class InitializeShareGroupStatePartitionResult(Struct):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None


class InitializeStateResult(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[InitializeShareGroupStatePartitionResult] = field(default_factory=list)


class InitializeShareGroupStateResponse(Struct, versions=(0, 0), flexible_since=0):
    results: list[InitializeStateResult] = field(default_factory=list)
