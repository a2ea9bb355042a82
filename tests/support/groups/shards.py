"""Drives a shard without a broker: runs its operations, with a log, timers and a manual clock."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.common.result import (
    CoordinatorResult,
    Deferred,
    ProducerIdentity,
    SetTimer,
)
from headrace.coordinator.common.shard import Shard
from headrace.protocol.errors import ErrorCode

S = TypeVar("S", bound=Shard)
R = TypeVar("R")


class Pending(Generic[R]):
    """An answer that may not be available yet."""

    def __init__(self) -> None:
        self.outcome: R | CoordinatorError | None = None

    @property
    def done(self) -> bool:
        return self.outcome is not None

    @property
    def value(self) -> R:
        """The answer; raises if the answer is an error."""
        assert self.outcome is not None, "no answer yet"
        if isinstance(self.outcome, CoordinatorError):
            raise self.outcome
        return self.outcome

    def take(self, outcome: R | CoordinatorError) -> None:
        assert self.outcome is None, "answered twice"
        self.outcome = outcome


class ShardDriver(Generic[S]):
    """One shard with its log. Every change goes through the bytes of its record format."""

    def __init__(self, make: Callable[[], S], *, now_ms: int = 1_000_000) -> None:
        self._make = make
        self.shard = make()
        self.now_ms = now_ms
        self.log: list[tuple[bytes | bool, bytes | None, ProducerIdentity | None]] = []
        self.timers: dict[Hashable, int] = {}
        self.effects: list[object] = []
        self.fail_next_append: CoordinatorError | None = None
        self._perform(self.shard.loaded(now_ms))

    def run(self, decide: Callable[[S, int], CoordinatorResult[R]]) -> R:
        """Runs an operation that answers at once; returns the answer."""
        return self.start(decide).value

    def start(self, decide: Callable[[S, int], CoordinatorResult[R]]) -> Pending[R]:
        """Runs an operation; a later one may complete its answer."""
        pending: Pending[R] = Pending()
        try:
            turn = decide(self.shard, self.now_ms)
        except CoordinatorError as error:
            pending.take(error)
            return pending
        error = self._perform(turn)
        if error is not None:
            pending.take(error)
        elif isinstance(turn.answer, Deferred):
            turn.answer.listen(pending.take)
        else:
            pending.take(turn.answer)
        return pending

    def _perform(self, turn: CoordinatorResult[R]) -> CoordinatorError | None:
        error, self.fail_next_append = self.fail_next_append, None
        if error is not None and turn.changes:
            if turn.undo is not None:
                turn.undo(error)
            for completion in turn.completions:
                completion.deferred.complete(error)
            return error
        for change in turn.changes:
            self._append(change, turn.producer)
        for timer in turn.timers:
            if isinstance(timer, SetTimer):
                self.timers[timer.key] = self.now_ms + timer.delay_ms
            else:
                self.timers.pop(timer.key, None)
        for completion in turn.completions:
            completion.deferred.complete(completion.outcome)
        self.effects.extend(turn.effects)
        return None

    def _append(self, change: RecordChange, producer: ProducerIdentity | None) -> None:
        key, value = self.shard.format.encode(change)
        self.log.append((key, value, producer))
        self._replay(len(self.log) - 1, key, value, producer)

    def _replay(
        self, offset: int, key: bytes, value: bytes | None, producer: ProducerIdentity | None
    ) -> None:
        change = self.shard.format.decode(key, value)
        assert change is not None
        self.shard.replay(offset, change, producer)

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Writes a marker."""
        self.log.append((committed, None, producer))
        self.shard.end_transaction(producer, committed=committed)

    def advance(self, ms: int) -> None:
        """Advances the clock; runs the timers that expire, in order."""
        until = self.now_ms + ms
        while True:
            due = min(self.timers.items(), key=lambda item: item[1], default=None)
            if due is None or due[1] > until:
                break
            key, at = due
            del self.timers[key]
            self.now_ms = max(self.now_ms, at)
            self._perform(self.shard.on_timeout(key, self.now_ms))
        self.now_ms = until

    def restart(self) -> None:
        """Loads a new shard from the log, as after a crash or a move to another broker."""
        self.shard.unload(CoordinatorError(ErrorCode.NOT_COORDINATOR))
        self.shard = self._make()
        self.timers.clear()
        self.effects.clear()
        for offset, (key, value, producer) in enumerate(self.log):
            if isinstance(key, bool):
                assert producer is not None
                self.shard.end_transaction(producer, committed=key)
            else:
                self._replay(offset, key, value, producer)
        self._perform(self.shard.loaded(self.now_ms))
