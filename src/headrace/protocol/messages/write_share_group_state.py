"""WriteShareGroupState (key 85): versions 0-1, flexible from 0.

Stores state of share partitions; sent by their leaders.
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


class WriteShareGroupStateStateBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0
    delivery_count: int16 = 0


class WriteShareGroupStatePartitionData(Struct):
    partition: int32 = 0
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: int32 = field(since=1, ignorable=True, default=-1)
    state_batches: list[WriteShareGroupStateStateBatch] = field(default_factory=list)


class WriteStateData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[WriteShareGroupStatePartitionData] = field(default_factory=list)


class WriteShareGroupStateRequest(Struct, versions=(0, 1), flexible_since=0):
    group_id: string = ""
    topics: list[WriteStateData] = field(default_factory=list)


class WriteShareGroupStatePartitionResult(Struct):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = None


class WriteStateResult(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: list[WriteShareGroupStatePartitionResult] = field(default_factory=list)


class WriteShareGroupStateResponse(Struct, versions=(0, 1), flexible_since=0):
    results: list[WriteStateResult] = field(default_factory=list)
