"""A shard for tests of the shard's runtime: named counters, waiting requests, timers, effects."""

from collections.abc import Collection, Container, Hashable
from dataclasses import dataclass

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange, RecordFormat, RecordType
from headrace.coordinator.common.result import (
    Completion,
    CoordinatorResult,
    Deferred,
    ProducerIdentity,
    SetTimer,
)
from headrace.protocol.struct import Struct
from headrace.protocol.types import int32, string


class CounterKey(Struct, versions=(0, 0)):
    name: string = ""


class CounterValue(Struct, versions=(0, 0)):
    value: int32 = 0


FORMAT = RecordFormat([RecordType(7, CounterKey, CounterValue, 0)])


@dataclass(frozen=True, slots=True)
class Rang:
    """The effect of `ring`."""

    name: str


class CounterShard:
    """Implements `coordinator.shard.Shard`. The replay of a name in `poison` fails."""

    def __init__(self, index: int, poison: set[str] | None = None) -> None:
        self.index = index
        self.poison = poison if poison is not None else set()
        self.counters: dict[str, int] = {}
        self.open: dict[ProducerIdentity, dict[str, int]] = {}
        self.waiting: dict[str, list[Deferred[int]]] = {}
        self.undone: list[CoordinatorError] = []
        self.timed: list[Hashable] = []
        self.changed: set[str] = set()
        self.was_loaded = False

    @property
    def entries(self) -> dict[str, int]:
        return self.counters

    # --- requests -------------------------------------------------------------------------------

    def add(
        self, name: str, amount: int = 1, producer: ProducerIdentity | None = None
    ) -> CoordinatorResult[int]:
        """Adds to a counter; all requests that wait for it get the new value."""
        value = self.counters.get(name, 0) + amount
        woken = self.waiting.pop(name, [])
        return CoordinatorResult(
            value,
            changes=[RecordChange(CounterKey(name=name), CounterValue(value=value))],
            completions=[Completion(deferred, value) for deferred in woken],
            effects=[Rang(name)],
            producer=producer,
            undo=self.undone.append,
        )

    def add_large(self, name: str, size: int) -> CoordinatorResult[int]:
        return CoordinatorResult(1, changes=[RecordChange(CounterKey(name=name), None)] * size)

    def wait(self, name: str) -> CoordinatorResult[int]:
        deferred: Deferred[int] = Deferred()
        self.waiting.setdefault(name, []).append(deferred)
        return CoordinatorResult(deferred)

    def later(self, name: str, delay_ms: int) -> CoordinatorResult[None]:
        return CoordinatorResult(None, timers=[SetTimer(name, delay_ms)])

    def crash(self) -> CoordinatorResult[int]:
        raise ZeroDivisionError("a bug")

    # --- Shard ----------------------------------------------------------------------------------

    @property
    def format(self) -> RecordFormat:
        return FORMAT

    def replay(self, offset: int, change: RecordChange, producer: ProducerIdentity | None) -> None:
        key, value = change
        assert isinstance(key, CounterKey)
        assert value is None or isinstance(value, CounterValue)
        if key.name in self.poison:
            raise ZeroDivisionError("a bug")
        if value is None:
            self.counters.pop(key.name, None)
        elif producer is not None:
            self.open.setdefault(producer, {})[key.name] = value.value
        else:
            self.counters[key.name] = value.value

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        written = self.open.pop(producer, {})
        if committed:
            self.counters.update(written)

    def loaded(self, now_ms: int) -> CoordinatorResult[None]:
        self.was_loaded = True
        return CoordinatorResult(None)

    @property
    def expirations(self) -> Container[Hashable]:
        return ()

    def on_timeout(self, key: Hashable, now_ms: int) -> CoordinatorResult[None]:
        self.timed.append(key)
        name = str(key)
        value = self.counters.get(name, 0) + 1
        return CoordinatorResult(
            None, changes=[RecordChange(CounterKey(name=name), CounterValue(value=value))]
        )

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> CoordinatorResult[None]:
        self.changed |= set(topics)
        return CoordinatorResult(None)

    def unload(self, error: CoordinatorError) -> None:
        for waiting in self.waiting.values():
            for deferred in waiting:
                deferred.complete(error)
        self.waiting.clear()
