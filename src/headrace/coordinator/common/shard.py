"""What every shard offers its runner besides its own requests."""

from collections.abc import Container, Hashable
from typing import Protocol

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange, RecordFormat
from headrace.coordinator.common.result import CoordinatorResult, ProducerIdentity


class Shard(Protocol):
    """The state of one partition of an internal topic."""

    @property
    def format(self) -> RecordFormat: ...

    def replay(self, offset: int, change: RecordChange, producer: ProducerIdentity | None) -> None:
        """Applies one record. Called in log order, for new records and when loading. Must not fail
        for a record that any earlier release wrote."""
        ...

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Ends a transaction: a marker in the log decides about the records that `producer` wrote
        before."""
        ...

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """All records are replayed: sets the timers and starts the effects that follow from
        them."""
        ...

    @property
    def expirations(self) -> Container[Hashable]:
        """The timers that delete things because of their age, by the wall clock."""
        ...

    def on_timeout(self, key: Hashable, now_ms: int) -> CoordinatorResult[None]:
        """Called when a timer of this shard expires."""
        ...

    def unload(self, error: CoordinatorError) -> None:
        """The shard moves to another broker or its log failed: completes every open `Deferred` with
        `error`."""
        ...
