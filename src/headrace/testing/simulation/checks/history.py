"""The observations of clients, and whether the log is consistent with them.

Values are unique, so each record can be identified. Violations are: an acknowledged record that is
missing, duplicated or at another offset than acknowledged; records of one producer out of order; a
record that a consumer read and that is not at that offset.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Violation(AssertionError):
    """A broken guarantee; `rule` names it."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(rule, what)
        self.rule = rule
        self.what = what

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


NO_OFFSET = -1
"""Acknowledged without an offset: the producer's retry was a duplicate of its first copy."""


@dataclass(slots=True)
class PlaceHistory:
    """The history of one partition. Values are in the order in which their producer sent them."""

    sent: dict[str, list[bytes]] = field(default_factory=dict)
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    read: dict[int, bytes] = field(default_factory=dict)


class History:
    """The history of all partitions."""

    def __init__(self) -> None:
        self.places: dict[Place, PlaceHistory] = {}
        self.acknowledged = 0
        self.read = 0

    def of(self, place: Place) -> PlaceHistory:
        """The history of one partition."""
        return self.places.setdefault(place, PlaceHistory())

    def sent(self, place: Place, producer: str, values: Sequence[bytes]) -> None:
        """Records the values that a producer sends."""
        self.of(place).sent.setdefault(producer, []).extend(values)

    def acked(self, place: Place, values: Sequence[bytes], base_offset: int) -> None:
        """Records the values that were acknowledged, and their offsets."""
        known = self.of(place).acknowledged
        for number, value in enumerate(values):
            known[value] = base_offset + number if base_offset >= 0 else NO_OFFSET
        self.acknowledged += len(values)

    def consumed(self, place: Place, records: Iterable[tuple[int, bytes]]) -> None:
        """Records the value that a consumer read; raises if it read another value at that offset
        before."""
        known = self.of(place).read
        for offset, value in records:
            before = known.setdefault(offset, value)
            if before != value:
                raise Violation(
                    "committed data never changes",
                    f"{place} offset {offset}: read {before!r} and later {value!r}",
                )
            self.read += 1

    def check(self, place: Place, log: Mapping[int, bytes]) -> None:
        """Raises `Violation` if the log, by offset, breaks a guarantee."""
        history = self.of(place)
        offsets: dict[bytes, int] = {}
        for offset, value in sorted(log.items()):
            if value in offsets:
                raise Violation(
                    "acknowledged records are in the log once",
                    f"{place}: {value!r} is at {offsets[value]} and at {offset}",
                )
            offsets[value] = offset
        self._check_acknowledged(place, history, offsets)
        self._check_order(place, history, offsets)
        for offset, value in history.read.items():
            if log.get(offset) != value:
                raise Violation(
                    "records that were read stay",
                    f"{place} offset {offset}: {value!r} was read, {log.get(offset)!r} is there",
                )

    def _check_acknowledged(
        self, place: Place, history: PlaceHistory, offsets: Mapping[bytes, int]
    ) -> None:
        for value, offset in history.acknowledged.items():
            found = offsets.get(value)
            if found is None:
                raise Violation(
                    "acknowledged records are readable",
                    f"{place}: {value!r} was acknowledged at {offset} and is lost",
                )
            if offset not in (NO_OFFSET, found):
                raise Violation(
                    "acknowledged records are readable",
                    f"{place}: {value!r} was acknowledged at {offset} and is at {found}",
                )

    def _check_order(
        self, place: Place, history: PlaceHistory, offsets: Mapping[bytes, int]
    ) -> None:
        for producer, values in history.sent.items():
            found = [offsets[value] for value in values if value in offsets]
            if found != sorted(found):
                raise Violation(
                    "acknowledged records are in order",
                    f"{place}: records of {producer} are out of order",
                )
