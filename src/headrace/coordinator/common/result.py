"""What a shard decides in one step.

A turn is all or nothing. The shell appends `changes` as one batch, replays them into the shard,
sets the timers; when the batch is committed it gives the answers and starts the effects. If the
batch cannot be appended, no answer and no effect happens, `undo` is called, and every answer is
the error instead.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange

R = TypeVar("R")
T = TypeVar("T")

_MISSING: Final = object()


class Deferred(Generic[R]):
    """An answer that a later turn gives, e.g. to a member that waits for the others to join.

    A shard returns it as the response and later names it in `CoordinatorResult.completions`.
    `abandoned`
    is set by the shell when the caller has gone.
    """

    __slots__ = ("_listener", "_outcome", "abandoned")

    def __init__(self) -> None:
        self._listener: Callable[[R | CoordinatorError], None] | None = None
        self._outcome: object = _MISSING
        self.abandoned = False

    @property
    def done(self) -> bool:
        return self._outcome is not _MISSING

    def complete(self, outcome: R | CoordinatorError) -> None:
        """For the shell, and for `unload`; the first outcome counts."""
        if self._outcome is _MISSING:
            self._outcome = outcome
            if self._listener is not None:
                self._listener(outcome)

    def listen(self, listener: Callable[[R | CoordinatorError], None]) -> None:
        """For the shell: called once, at once if the outcome is there."""
        if self._outcome is not _MISSING:
            listener(cast("R | CoordinatorError", self._outcome))
        else:
            self._listener = listener


class Completion(NamedTuple):
    """The outcome of an earlier turn's `Deferred`, to be given when this turn is committed."""

    deferred: Deferred[Any]
    outcome: object  # the answer, or a CoordinatorError


class ProducerIdentity(NamedTuple):
    """The transactional producer in whose transaction the changes are written."""

    producer_id: int
    epoch: int


class SetTimer(NamedTuple):
    """Calls `Shard.timed_out(key)` after the delay; replaces a timer of the same key."""

    key: Hashable
    delay_ms: int


class CancelTimer(NamedTuple):
    """Forgets the timer of that key, if there is one."""

    key: Hashable


class PreparedRecords(Protocol):
    """Records that are at hand as bytes, and what their replay comes to.

    Where many small turns must be cheap, this is a turn that has nothing to say but its records.
    """

    @property
    def count(self) -> int:
        """At least one."""
        ...

    @property
    def payload(self) -> bytes:
        """The records as `records.plain.plain_records` writes them."""
        ...

    def replay(self, first_offset: int) -> None:
        """The records were appended: does what the replay of each would do."""
        ...


class CoordinatorResult(NamedTuple, Generic[R]):
    """Records, answers, timers and effects of one step."""

    answer: R | Deferred[R]
    changes: Sequence[RecordChange] = ()
    completions: Sequence[Completion] = ()
    timers: Sequence[SetTimer | CancelTimer] = ()
    effects: Sequence[object] = ()
    """What the shell must do outside once the changes are committed, e.g. write markers. Each
    kind of shard defines its own frozen dataclasses, and its shell knows them by type."""
    producer: ProducerIdentity | None = None
    undo: Callable[[CoordinatorError], None] | None = None
    """Takes back soft state (waiting members, not records) if the append failed."""
