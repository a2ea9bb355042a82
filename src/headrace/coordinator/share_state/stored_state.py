"""The stored state of one share partition."""

from collections.abc import Iterable
from typing import NamedTuple

from headrace.coordinator.share_state.records import (
    ShareSnapshotValue,
    ShareUpdateValue,
    StoredBatch,
)
from headrace.coordinator.share_state.state_batches import combine
from headrace.protocol.types import encode_uuid
from headrace.share.record_state import RecordState, StateBatch


class SharePartitionKey(NamedTuple):
    """A partition of one share group."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The key that FindCoordinator and the choice of a shard use."""
        topic_id = encode_uuid(self.topic_id)
        return f"{self.group_id}:{topic_id}:{self.partition}"


class StoredState:
    """Changes only by its records. Batches are merged when they are read."""

    __slots__ = (
        "_batches",
        "_recent",
        "complete_count",
        "create_ms",
        "leader_epoch",
        "offset",
        "snapshot_epoch",
        "start_offset",
        "state_epoch",
        "updates",
        "write_ms",
    )

    def __init__(self, offset: int, snapshot: ShareSnapshotValue) -> None:
        self.offset = offset
        """The offset of the snapshot in the log: the state needs no earlier record."""
        self.updates = 0
        self.snapshot_epoch = snapshot.snapshot_epoch
        self.state_epoch = snapshot.state_epoch
        self.leader_epoch = snapshot.leader_epoch
        self.start_offset = snapshot.start_offset
        self.complete_count = snapshot.delivery_complete_count
        self.create_ms = snapshot.create_timestamp
        self.write_ms = snapshot.write_timestamp
        self._batches = read_batches(snapshot.state_batches)
        self._recent: list[StateBatch] = []

    def update(self, value: ShareUpdateValue) -> None:
        self.updates += 1
        if value.start_offset >= 0:
            self.start_offset = value.start_offset
        self.leader_epoch = max(self.leader_epoch, value.leader_epoch)
        self.complete_count = value.delivery_complete_count
        self._recent += read_batches(value.state_batches)

    @property
    def batches(self) -> tuple[StateBatch, ...]:
        """The batches, sorted and without overlaps."""
        if self._recent or (self._batches and self._batches[0].first < self.start_offset):
            self._batches = combine((*self._batches, *self._recent), self.start_offset)
            self._recent = []
        return self._batches

    def first_unfinished(self) -> int:
        """The first offset from the start on whose delivery is not complete."""
        offset = self.start_offset
        for batch in self.batches:
            if batch.first > offset or not batch.state.is_final:
                break
            offset = max(offset, batch.last + 1)
        return offset


def read_batches(stored: Iterable[StoredBatch]) -> tuple[StateBatch, ...]:
    """Decodes the batches of a record."""
    return tuple(
        StateBatch(
            batch.first_offset,
            batch.last_offset,
            RecordState(batch.delivery_state),
            batch.delivery_count,
        )
        for batch in stored
    )


def stored_batches(batches: Iterable[StateBatch]) -> list[StoredBatch]:
    """Encodes batches for a record."""
    return [
        StoredBatch(
            first_offset=batch.first,
            last_offset=batch.last,
            delivery_state=batch.state,
            delivery_count=batch.deliveries,
        )
        for batch in batches
    ]
