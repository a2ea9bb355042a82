"""A compacted topic: a writer of keyed values, and the guarantees of compaction.

The key follows from the value, and the values of a writer increase. Compaction keeps the last
acknowledged value of each key, or a later one. Every remaining record is at its acknowledged
offset. A record that was read is missing only if a later record of its key remains.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from headrace.client.client import ClusterClient
from headrace.clock import Clock
from headrace.records.record import Record
from headrace.testing.simulation.checks.history import NO_OFFSET, History, Place, Violation
from headrace.testing.simulation.clients.workload import Acknowledged, Producer

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
    """Raises `Violation` if the remaining records, by offset, break a guarantee."""
    known = history.of(place)
    left: dict[bytes, int] = {}
    before = -1
    for offset, value in sorted(log.items()):
        number = _number(value)
        if number <= before:
            raise Violation(LAST_STAYS, f"{place} offset {offset}: {value!r} follows {before}")
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
