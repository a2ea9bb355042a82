"""A compacted topic: a writer of keyed values, and what must be left of them.

The key follows from the value, and values of a writer grow. Whatever compaction takes away, the
last acknowledged value of each key, or a later one, is there; what is there lies where it was
acknowledged; and a record that was read is gone only where a later one of its key is left.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from headrace.client.client import ClusterClient
from headrace.clock import Clock
from headrace.records.record import Record
from headrace.testing.simulation.history import NO_OFFSET, History, Place, Violation
from headrace.testing.simulation.workload import Acknowledged, Producer

KEYS: Final = 5
MEAN_PAUSE_S: Final = 0.2
CONFIG: Final = {
    "cleanup.policy": "compact",
    "flush.messages": "1",
    "segment.ms": "2500",
    "min.cleanable.dirty.ratio": "0.01",
}

LAST_STAYS: Final = "compaction keeps the last value of each key"


class TableWriter(Producer):
    """Writes to one partition, with keys."""

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        place: Place,
        clock: Clock,
        chance: Random,
        acknowledged: Acknowledged,
    ) -> None:
        super().__init__(
            client,
            history,
            place,
            str(place),
            mean_pause_s=MEAN_PAUSE_S,
            chance=chance,
            acknowledged=acknowledged,
        )
        self._clock = clock

    def _records(self, values: Sequence[bytes]) -> list[Record]:
        now_ms = self._clock.wall_ms()
        return [Record(n, now_ms, _key(value), value, ()) for n, value in enumerate(values)]


def check_table(history: History, place: Place, log: Mapping[int, bytes]) -> None:
    """Whether what is left in the log, by offset, keeps every promise that was made."""
    known = history.of(place)
    left: dict[bytes, int] = {}
    before = -1
    for offset, value in sorted(log.items()):
        number = _number(value)
        if number <= before:
            raise Violation(LAST_STAYS, f"{place} offset {offset}: {value!r} lies after {before}")
        before = left[_key(value)] = number
        if known.acknowledged.get(value, NO_OFFSET) not in (NO_OFFSET, offset):
            acknowledged = known.acknowledged[value]
            raise Violation(LAST_STAYS, f"{place}: {value!r} at {offset}, not {acknowledged}")
    for value in known.acknowledged:
        if left.get(_key(value), -1) < _number(value):
            raise Violation(LAST_STAYS, f"{place}: {value!r} and all after it are gone")
    for offset, value in known.read.items():
        found = log.get(offset)
        gone = found is None and left.get(_key(value), -1) > _number(value)
        if found != value and not gone:
            raise Violation(LAST_STAYS, f"{place} offset {offset}: {value!r} read, {found!r} left")


def _number(value: bytes) -> int:
    return int(value.rpartition(b":")[2])


def _key(value: bytes) -> bytes:
    return b"key-%d" % (_number(value) % KEYS)
