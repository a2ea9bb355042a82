"""A shard for tests of the shell: named counters, people who wait for them, timers, effects."""

from collections.abc import Collection, Container, Hashable
from dataclasses import dataclass

from headrace.coordinator.errors import CoordinatorError
from headrace.coordinator.record_format import Change, RecordFormat, RecordType
from headrace.coordinator.turn import Completion, Deferred, Producer, SetTimer, Turn
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
    """Implements `coordinator.shard.Shard`. `poison` is a name that replaying does not survive."""

    def __init__(self, index: int, poison: set[str] | None = None) -> None:
        self.index = index
        self.poison = poison if poison is not None else set()
        self.counters: dict[str, int] = {}
        self.open: dict[Producer, dict[str, int]] = {}
        self.waiting: dict[str, list[Deferred[int]]] = {}
        self.undone: list[CoordinatorError] = []
        self.timed: list[Hashable] = []
        self.changed: set[str] = set()
        self.was_loaded = False

    # --- requests -------------------------------------------------------------------------------

    def add(self, name: str, amount: int = 1, producer: Producer | None = None) -> Turn[int]:
        """Counts; everyone who waits for that name is told the new value."""
        value = self.counters.get(name, 0) + amount
        woken = self.waiting.pop(name, [])
        return Turn(
            value,
            changes=[Change(CounterKey(name=name), CounterValue(value=value))],
            completions=[Completion(deferred, value) for deferred in woken],
            effects=[Rang(name)],
            producer=producer,
            undo=self.undone.append,
        )

    def add_large(self, name: str, size: int) -> Turn[int]:
        return Turn(1, changes=[Change(CounterKey(name=name), None)] * size)

    def wait(self, name: str) -> Turn[int]:
        deferred: Deferred[int] = Deferred()
        self.waiting.setdefault(name, []).append(deferred)
        return Turn(deferred)

    def later(self, name: str, delay_ms: int) -> Turn[None]:
        return Turn(None, timers=[SetTimer(name, delay_ms)])

    def crash(self) -> Turn[int]:
        raise ZeroDivisionError("a bug")

    # --- Shard ----------------------------------------------------------------------------------

    @property
    def format(self) -> RecordFormat:
        return FORMAT

    def replay(self, offset: int, change: Change, producer: Producer | None) -> None:
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

    def end_transaction(self, producer: Producer, *, committed: bool) -> None:
        written = self.open.pop(producer, {})
        if committed:
            self.counters.update(written)

    def loaded(self, now_ms: int) -> Turn[None]:
        self.was_loaded = True
        return Turn(None)

    @property
    def expirations(self) -> Container[Hashable]:
        return ()

    def timed_out(self, key: Hashable, now_ms: int) -> Turn[None]:
        self.timed.append(key)
        name = str(key)
        value = self.counters.get(name, 0) + 1
        return Turn(None, changes=[Change(CounterKey(name=name), CounterValue(value=value))])

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> Turn[None]:
        self.changed |= set(topics)
        return Turn(None)

    def unload(self, error: CoordinatorError) -> None:
        for waiting in self.waiting.values():
            for deferred in waiting:
                deferred.complete(error)
        self.waiting.clear()
