"""The result of one request or timer in a shard.

A `CoordinatorResult` is all or nothing. The runner appends `changes` as one batch, replays them
into the shard and sets the timers. When the batch is committed, it sends the responses and starts
the effects. If the append fails, no response is sent and no effect starts; `undo` is
called, and every waiting request gets the error instead.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange

R = TypeVar("R")
T = TypeVar("T")

_MISSING: Final = object()


class Deferred(Generic[R]):
    """A response that a later result provides, e.g. to a member that waits for the others to join.

    A shard returns it as the answer of a `CoordinatorResult` and lists it in `completions` of a
    later result. The runner sets `abandoned` when the client has gone.
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
        """Called by the runner and by `unload`; only the first outcome counts."""
        if self._outcome is _MISSING:
            self._outcome = outcome
            if self._listener is not None:
                self._listener(outcome)

    def listen(self, listener: Callable[[R | CoordinatorError], None]) -> None:
        """Called by the runner. Calls `listener` once, immediately if the outcome exists."""
        if self._outcome is not _MISSING:
            listener(cast("R | CoordinatorError", self._outcome))
        else:
            self._listener = listener


class Completion(NamedTuple):
    """The outcome of an earlier `Deferred`, to be delivered when this result is committed."""

    deferred: Deferred[Any]
    outcome: object  # the answer, or a CoordinatorError


class ProducerIdentity(NamedTuple):
    """The transactional producer in whose transaction the changes are written."""

    producer_id: int
    epoch: int


class SetTimer(NamedTuple):
    """Calls `Shard.on_timeout(key)` after the delay; replaces a timer of the same key."""

    key: Hashable
    delay_ms: int


class CancelTimer(NamedTuple):
    """Cancels the timer of that key, if there is one."""

    key: Hashable


class PreparedRecords(Protocol):
    """Encoded records, and the effect of their replay.

    For paths where many small results must be cheap: a result that consists of records only.
    """

    @property
    def count(self) -> int:
        """At least one."""
        ...

    @property
    def payload(self) -> bytes:
        """The records as `plain_record` encodes them, one after the other."""
        ...

    def replay(self, first_offset: int) -> None:
        """Applies the appended records; the effect equals the replay of each of them."""
        ...


class CoordinatorResult(NamedTuple, Generic[R]):
    """Records, responses, timers and effects of one step."""

    answer: R | Deferred[R]
    changes: Sequence[RecordChange] = ()
    completions: Sequence[Completion] = ()
    timers: Sequence[SetTimer | CancelTimer] = ()
    effects: Sequence[object] = ()
    """Actions for the broker once the changes are committed, e.g. write markers. Each kind of shard
    defines its own frozen dataclasses, and the broker selects the action by type."""
    producer: ProducerIdentity | None = None
    undo: Callable[[CoordinatorError], None] | None = None
    """Undoes changes of soft state (waiting members, not records) if the append failed."""
