"""The interface of every shard for its runner, besides the shard's own requests."""

from collections.abc import Container, Hashable, Sized
from typing import Protocol

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange, RecordFormat
from headrace.coordinator.common.result import CoordinatorResult, ProducerIdentity


class Shard(Protocol):
    """The state of one partition of an internal topic."""

    @property
    def format(self) -> RecordFormat: ...

    @property
    def entries(self) -> Sized:
        """What the shard keeps state of: groups, transactional ids or share partitions."""
        ...

    def replay(self, offset: int, change: RecordChange, producer: ProducerIdentity | None) -> None:
        """Applies one record. Called in log order, for new records and when loading. Must not fail
        for a record that any earlier release wrote."""
        ...

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """A marker in the log commits or aborts the records that `producer` wrote before it."""
        ...

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Called after all records are replayed; sets the timers and starts the effects."""
        ...

    @property
    def expirations(self) -> Container[Hashable]:
        """The timers that delete state by its age on the wall clock."""
        ...

    def on_timeout(self, key: Hashable, now_ms: int) -> CoordinatorResult[None]:
        """Called when a timer of this shard expires."""
        ...

    def unload(self, error: CoordinatorError) -> None:
        """Completes every open `Deferred` with `error`: the shard moves, or its log has failed."""
        ...
