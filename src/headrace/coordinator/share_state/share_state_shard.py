"""One partition of `__share_group_state`.

Guarantees: a write of a replaced leader, or for an earlier initialization of the state, is refused
(FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH); state that was not initialized cannot be read or written;
the state of a deleted topic is deleted. After a number of updates, or if a state has not changed
for long, a snapshot of it is written, so that the log before the oldest snapshot can be pruned.
"""

from collections.abc import Callable, Collection, Container, Hashable, Sequence, Sized
from typing import Final, NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange, RecordFormat
from headrace.coordinator.common.result import CoordinatorResult, ProducerIdentity, SetTimer
from headrace.coordinator.share_state.records import (
    FORMAT,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from headrace.coordinator.share_state.state_batches import combine
from headrace.coordinator.share_state.stored_state import (
    SharePartitionKey,
    StoredState,
    stored_batches,
)
from headrace.protocol.errors import ErrorCode
from headrace.share.record_state import StateBatch

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
UNKNOWN_COUNT: Final = -1
_PRUNE: Final = "prune"
_COLD: Final = "cold"


class ShareStateConfig(NamedTuple):
    """Kafka's defaults."""

    updates_per_snapshot: int = 500
    prune_interval_ms: int = 300_000
    cold_snapshot_interval_ms: int = 300_000


class PruneLog(NamedTuple):
    """Effect: the log of this shard may be deleted before `offset`."""

    offset: int


class ReadState(NamedTuple):
    """The state with which the leader of a share partition starts."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class StateSummary(NamedTuple):
    """The state as tools show it."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    complete_count: int = UNKNOWN_COUNT
    first_unfinished: int = NO_OFFSET
    """The first offset whose delivery is not complete; a write stores the start before it."""


class StateChange(NamedTuple):
    """A change by the leader of a share partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: Sequence[StateBatch]


class ShareStateShard:
    """Implements `Shard`."""

    def __init__(
        self,
        index: int,
        image: Callable[[], MetadataImage],
        config: ShareStateConfig | None = None,
    ) -> None:
        self.index = index
        self._image = image
        self._config = config or ShareStateConfig()
        self._states: dict[SharePartitionKey, StoredState] = {}
        self._last_offset = NO_OFFSET
        self._pruned_before = 0

    @property
    def format(self) -> RecordFormat:
        return FORMAT

    @property
    def entries(self) -> Sized:
        return self._states

    # --- requests -------------------------------------------------------------------------------

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, now_ms: int
    ) -> CoordinatorResult[bool]:
        """Initializes the state, possibly again; with offset -1 the leader will choose the
        start."""
        known = self._states.get(key)
        _check_partition(key)
        if known is not None and NO_EPOCH != state_epoch < known.state_epoch:
            raise CoordinatorError(ErrorCode.FENCED_STATE_EPOCH)
        self._check_topic(key)
        value = ShareSnapshotValue(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=state_epoch,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN_COUNT if start_offset == NO_OFFSET else 0,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
        )
        return CoordinatorResult(True, changes=[_snapshot(key, value)])

    def read(
        self, key: SharePartitionKey, leader_epoch: int, now_ms: int
    ) -> CoordinatorResult[ReadState]:
        """The state, for a new leader; earlier leaders are fenced from now on."""
        state = self._started(key, leader_epoch)
        self._check_topic(key)
        answer = ReadState(state.state_epoch, state.start_offset, state.batches)
        if leader_epoch in (NO_EPOCH, state.leader_epoch):
            return CoordinatorResult(answer)
        change = StateChange(
            state.state_epoch, leader_epoch, state.start_offset, state.complete_count, ()
        )
        return CoordinatorResult(
            answer, changes=[self._record(key, state, change, leader_epoch, now_ms)]
        )

    def write(
        self, key: SharePartitionKey, change: StateChange, now_ms: int
    ) -> CoordinatorResult[bool]:
        state = self._started(key, change.leader_epoch)
        if NO_EPOCH != change.state_epoch < state.state_epoch:
            raise CoordinatorError(ErrorCode.FENCED_STATE_EPOCH)
        self._check_topic(key)
        return CoordinatorResult(
            True, changes=[self._record(key, state, change, state.leader_epoch, now_ms)]
        )

    def delete(self, key: SharePartitionKey) -> CoordinatorResult[bool]:
        """Deletes the state, if there is one."""
        _check_partition(key)
        self._check_topic(key)
        return CoordinatorResult(
            True, changes=[_snapshot(key, None)] if key in self._states else ()
        )

    def summary(self, key: SharePartitionKey) -> CoordinatorResult[StateSummary]:
        """The state without its batches; state that was not initialized has no start offset."""
        _check_partition(key)
        self._check_topic(key)
        state = self._states.get(key)
        if state is None:
            return CoordinatorResult(StateSummary())
        return CoordinatorResult(
            StateSummary(
                state.state_epoch,
                state.leader_epoch,
                state.start_offset,
                state.complete_count,
                state.first_unfinished(),
            )
        )

    def _started(self, key: SharePartitionKey, leader_epoch: int) -> StoredState:
        _check_partition(key)
        state = self._states.get(key)
        if state is None:
            raise CoordinatorError(
                ErrorCode.INVALID_REQUEST, "The share partition has not been initialized."
            )
        if NO_EPOCH != leader_epoch < state.leader_epoch:
            raise CoordinatorError(ErrorCode.FENCED_LEADER_EPOCH)
        return state

    def _check_topic(self, key: SharePartitionKey) -> None:
        topic = self._image().topics_by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise CoordinatorError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _record(
        self,
        key: SharePartitionKey,
        state: StoredState,
        change: StateChange,
        leader_epoch: int,
        now_ms: int,
    ) -> RecordChange:
        """An update, or the whole state if there were many of them."""
        if state.updates >= self._config.updates_per_snapshot:
            start = state.start_offset if change.start_offset < 0 else change.start_offset
            return _snapshot(
                key,
                ShareSnapshotValue(
                    snapshot_epoch=state.snapshot_epoch + 1,
                    state_epoch=state.state_epoch,
                    leader_epoch=leader_epoch,
                    start_offset=start,
                    delivery_complete_count=change.complete_count,
                    create_timestamp=now_ms,
                    write_timestamp=now_ms,
                    state_batches=stored_batches(combine((*state.batches, *change.batches), start)),
                ),
            )
        update = ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.complete_count,
            state_batches=stored_batches(combine(change.batches, change.start_offset)),
        )
        return RecordChange(
            ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition),
            update,
        )

    # --- records --------------------------------------------------------------------------------

    def replay(self, offset: int, change: RecordChange, producer: ProducerIdentity | None) -> None:
        key, value = change
        self._last_offset = offset
        if isinstance(key, ShareSnapshotKey):
            partition = SharePartitionKey(key.group_id, bytes(key.topic_id), key.partition)
            if isinstance(value, ShareSnapshotValue):
                known = self._states.get(partition)
                state = self._states[partition] = StoredState(offset, value)
                if (
                    known is not None
                ):  # a state that was initialized again has no leader, but fences the old leader
                    state.leader_epoch = max(state.leader_epoch, known.leader_epoch)
            else:
                self._states.pop(partition, None)
        elif isinstance(key, ShareUpdateKey) and isinstance(value, ShareUpdateValue):
            partition = SharePartitionKey(key.group_id, bytes(key.topic_id), key.partition)
            updated = self._states.get(partition)
            if updated is not None:
                updated.update(value)

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Does nothing: this shard's records are never written in a transaction."""

    # --- loading and timers ---------------------------------------------------------------------

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Deletes the state of topics that were deleted while the shard was not loaded."""
        return CoordinatorResult(
            None,
            changes=self._orphans(),
            timers=[
                SetTimer(_PRUNE, self._config.prune_interval_ms),
                SetTimer(_COLD, self._config.cold_snapshot_interval_ms),
            ],
        )

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> CoordinatorResult[None]:
        """Deletes the state of deleted topics."""
        return CoordinatorResult(None, changes=self._orphans())

    def _orphans(self) -> list[RecordChange]:
        topics = self._image().topics_by_id
        return [_snapshot(key, None) for key in self._states if key.topic_id not in topics]

    @property
    def expirations(self) -> Container[Hashable]:
        """No timers: no state is deleted by its age."""
        return ()

    def on_timeout(self, key: Hashable, now_ms: int) -> CoordinatorResult[None]:
        if key == _COLD:
            interval_ms = self._config.cold_snapshot_interval_ms
            again = SetTimer(_COLD, interval_ms)
            return CoordinatorResult(
                None, changes=self._cold(now_ms - interval_ms, now_ms), timers=[again]
            )
        again = SetTimer(_PRUNE, self._config.prune_interval_ms)
        oldest = min((state.offset for state in self._states.values()), default=self._last_offset)
        if oldest <= self._pruned_before:
            return CoordinatorResult(None, timers=[again])
        self._pruned_before = oldest
        return CoordinatorResult(None, timers=[again], effects=[PruneLog(oldest)])

    def _cold(self, before_ms: int, now_ms: int) -> list[RecordChange]:
        """Snapshots of states that were not written for long; none if all states are old."""
        if all(state.create_ms != state.write_ms for state in self._states.values()):
            return []
        return [
            _snapshot(
                key,
                ShareSnapshotValue(
                    snapshot_epoch=state.snapshot_epoch + 1,
                    state_epoch=state.state_epoch,
                    leader_epoch=state.leader_epoch,
                    start_offset=state.start_offset,
                    delivery_complete_count=state.complete_count,
                    create_timestamp=state.create_ms,
                    write_timestamp=now_ms,
                    state_batches=stored_batches(state.batches),
                ),
            )
            for key, state in self._states.items()
            if state.write_ms <= before_ms
        ]

    def unload(self, error: CoordinatorError) -> None:
        """Does nothing: no request waits for this shard."""


def _check_partition(key: SharePartitionKey) -> None:
    if key.partition < 0:
        raise CoordinatorError(
            ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number."
        )


def _snapshot(key: SharePartitionKey, value: ShareSnapshotValue | None) -> RecordChange:
    return RecordChange(
        ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition),
        value,
    )
