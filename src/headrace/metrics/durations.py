"""Durations of many events: exact count and sum, and quantiles of the last one to two minutes.

Guarantees: recording one costs an append to an array. Quantiles are exact to 7 %: durations are
counted by the first bits of their floating-point form, 16 buckets for each power of two. The memory
is bounded by the number of these buckets, whatever is recorded.
"""

import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import repeat
from struct import Struct
from typing import Final, Self

from headrace.metrics.family import Sample

FOLD_AT: Final = 1024
"""Durations in the buffer; to count them takes 0.1 ms."""

QUANTILES: Final = (0.5, 0.75, 0.95, 0.99, 0.999)
_QUANTILE_LABELS: Final = tuple(str(quantile) for quantile in QUANTILES)

_DOUBLE: Final = Struct(">d")
# The sign, the exponent and the first four bits of the mantissa are one 16-bit number.
_FIRST_BITS: Final = 3 if sys.byteorder == "little" else 0
_SHORTS_OF_DOUBLE: Final = 4
_HALF_BUCKET: Final = 0x8000  # in the 16 bits after the first 16
_MAX_VALUE: Final = 1e9


class Durations:
    """The durations of one kind of event. A hot path appends to `buffer` and calls `fold` now and
    then; elsewhere `add` does both."""

    __slots__ = ("_count", "_current", "_previous", "_sum", "buffer")

    def __init__(self) -> None:
        self.buffer: array[float] = array("d")
        self._count = 0
        self._sum = 0.0
        self._current: Counter[int] = Counter()
        self._previous: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        self.buffer.append(seconds)
        if len(self.buffer) >= FOLD_AT:
            self.fold()

    def add_many(self, seconds: float, times: int) -> None:
        """Records `times` events of the same duration."""
        self.buffer.extend(repeat(seconds, times))
        if len(self.buffer) >= FOLD_AT:
            self.fold()

    def fold(self) -> None:
        """Counts the durations of the buffer."""
        buffer = self.buffer
        self._count += len(buffer)
        self._sum += sum(buffer)
        with memoryview(buffer) as view, view.cast("B") as bytes_, bytes_.cast("H") as shorts:
            self._current.update(shorts[_FIRST_BITS::_SHORTS_OF_DOUBLE].tolist())
        del buffer[:]

    def rotate(self) -> None:
        """Begins a new window for quantiles; called about once a minute."""
        self.fold()
        self._previous, self._current = self._current, Counter()

    @property
    def count(self) -> int:
        return self._count + len(self.buffer)

    @property
    def sum(self) -> float:
        return self._sum + sum(self.buffer)

    def _counts(self) -> Counter[int]:
        self.fold()
        return self._previous + self._current

    @classmethod
    def counts_of(cls, parts: Iterable[Self]) -> Counter[int]:
        """The counts of the windows of several kinds of events together."""
        total: Counter[int] = Counter()
        for part in parts:
            total += part._counts()
        return total


def summary_samples(
    parts: Iterable[Durations],
    labels: tuple[str, ...],
    *,
    scale: float = 1.0,
    among: Iterable[Durations] = (),
) -> Iterator[Sample]:
    """The samples of a summary over several kinds of events together.

    With `among`, the events that were recorded only there took no time. `scale` changes the unit.
    """
    parts, among = tuple(parts), tuple(among)
    counts = Durations.counts_of(parts)
    count = sum(part.count for part in parts)
    if among:
        counts[0] += max(0, Durations.counts_of(among).total() - counts.total())
        count = max(count, sum(part.count for part in among))
    for label, seconds in zip(_QUANTILE_LABELS, quantiles_of(counts), strict=True):
        yield (*labels, label), seconds * scale
    yield (*labels, "sum"), sum(part.sum for part in parts) * scale
    yield (*labels, "count"), count


def quantiles_of(counts: Counter[int]) -> list[float]:
    """The value of each of `QUANTILES`; 0 if nothing was counted."""
    total = counts.total()
    found: list[float] = []
    ordered = sorted(counts.items())
    passed = 0
    position = 0
    for quantile in QUANTILES:
        rank = quantile * total
        while position < len(ordered) and passed + ordered[position][1] < rank:
            passed += ordered[position][1]
            position += 1
        found.append(_middle(ordered[position][0]) if position < len(ordered) else 0.0)
    return found


def _middle(first_bits: int) -> float:
    """The middle of a bucket."""
    if not first_bits:
        return 0.0
    value: float
    (value,) = _DOUBLE.unpack(((first_bits << 16 | _HALF_BUCKET) << 32).to_bytes(8, "big"))
    return min(value, _MAX_VALUE)
