"""ReadShareGroupState (key 84): versions 0, flexible from 0.

Reads the stored state of share partitions; sent by their leaders.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    ZERO_UUID,
    int8,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    uuid,
)


class ReadShareGroupStatePartitionData(Struct):
    partition: int32 = 0
    leader_epoch: int32 = 0


class ReadStateData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[ReadShareGroupStatePartitionData] = field(default_factory=list)


class ReadShareGroupStateRequest(Struct, versions=(0, 0), flexible_since=0):
    group_id: string = ""
    topics: list[ReadStateData] = field(default_factory=list)


class ReadShareGroupStateStateBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0
    delivery_count: int16 = 0


class ReadShareGroupStatePartitionResult(Struct):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None
    state_epoch: int32 = 0
    start_offset: int64 = 0
    state_batches: list[ReadShareGroupStateStateBatch] = field(default_factory=list)


class ReadStateResult(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[ReadShareGroupStatePartitionResult] = field(default_factory=list)


class ReadShareGroupStateResponse(Struct, versions=(0, 0), flexible_since=0):
    results: list[ReadStateResult] = field(default_factory=list)
