"""What every shard offers its shell beside its own requests."""

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
        """Takes one record in. Called in log order, for new records and when loading; must not
        fail for a record that any earlier release wrote."""
        ...

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """A marker in the log decides what `producer` wrote before it."""
        ...

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """All records are replayed: sets the timers and starts the effects that they call for."""
        ...

    @property
    def expirations(self) -> Container[Hashable]:
        """The timers after which things go because of their age, by the wall clock."""
        ...

    def timed_out(self, key: Hashable, now_ms: int) -> CoordinatorResult[None]:
        """A timer that this shard has set has run out."""
        ...

    def unload(self, error: CoordinatorError) -> None:
        """The shard moves away or its log failed: completes every open `Deferred` with `error`."""
        ...
