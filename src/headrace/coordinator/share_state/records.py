"""The records of `__share_group_state`, as Kafka 4.3 writes them.

A snapshot holds the whole state of a share partition; the updates after it hold the changes. A
snapshot without a value deletes the state.
"""

from typing import Final

from headrace.coordinator.common.record_format import RecordFormat, RecordType
from headrace.protocol.struct import Struct, field
from headrace.protocol.types import ZERO_UUID, int8, int16, int32, int64, string, uuid


class StoredBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0
    delivery_count: int16 = 0


class ShareSnapshotKey(Struct, versions=(0, 0)):
    group_id: string = ""
    topic_id: uuid = ZERO_UUID
    partition: int32 = 0


class ShareSnapshotValue(Struct, versions=(0, 0), flexible_since=0):
    snapshot_epoch: int32 = 0
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: int32 = field(tag=0, ignorable=True, default=-1)
    create_timestamp: int64 = 0
    write_timestamp: int64 = 0
    state_batches: list[StoredBatch] = field(default_factory=list)


class ShareUpdateKey(Struct, versions=(0, 0)):
    group_id: string = ""
    topic_id: uuid = ZERO_UUID
    partition: int32 = 0


class ShareUpdateValue(Struct, versions=(0, 0), flexible_since=0):
    snapshot_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    """-1 if it is unchanged."""
    delivery_complete_count: int32 = field(tag=0, ignorable=True, default=-1)
    state_batches: list[StoredBatch] = field(default_factory=list)


FORMAT: Final = RecordFormat(
    (
        RecordType(0, ShareSnapshotKey, ShareSnapshotValue, 0),
        RecordType(1, ShareUpdateKey, ShareUpdateValue, 0),
    )
)
