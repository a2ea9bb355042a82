"""Damaged or missing records, and where the damage begins in a segment.

If a read finds fewer bytes than expected, the segment is checked batch by batch from an index entry
on: records may be missing between two batches, and a wrong length points to a wrong position.
"""

from bisect import bisect_right
from struct import Struct
from typing import NamedTuple

from headrace.records.batch_header import LOG_OVERHEAD
from headrace.storage.errors import CorruptIndex, RecordsDamaged
from headrace.storage.segment.batch_check import BadBatch, Bounds, EpochSpan, check_batches
from headrace.storage.segment.segment import Segment

# The limit for one response: a check takes 0.35 us for each batch and 36 us for each megabyte.
MAX_CHECKS = 4096
WALK_BYTES = 1 << 18
MAX_BATCH_BYTES = 2**31 - 1
_BASE_OFFSET = Struct(">q")
_LENGTH = Struct(">8xi")


class Checks:
    """The number of batches that may still be checked for one response. `ended_early` says that the
    read ended before its limit: at this number, or at damage."""

    __slots__ = ("ended_early", "left")

    def __init__(self, left: int = MAX_CHECKS) -> None:
        self.left = left
        self.ended_early = False


class Damage(NamedTuple):
    """Offsets from `first_offset` up to `next_offset`, or some of them, cannot be read."""

    path: str
    position: int
    first_offset: int
    next_offset: int
    reason: str

    def error(self) -> RecordsDamaged:
        return RecordsDamaged(
            f"{self.path} is damaged at byte {self.position} ({self.reason}): offsets from "
            f"{self.first_offset} to {self.next_offset - 1}, or some of them, cannot be read. "
            "Restore the file from another replica or a backup while the broker is stopped, or "
            f"let consumers continue at offset {self.next_offset}"
        )


class CheckedRange(NamedTuple):
    """A segment is intact up to `position`; the batches before it end below `next_offset`."""

    position: int
    next_offset: int
    bad: BadBatch | None


def bounds_in(segment: Segment, first: int, limit: int, epoch_span: EpochSpan) -> Bounds:
    """The bounds of batches in that segment: offsets from `first` up to `limit`."""

    def following(position: int) -> int:
        head = segment.read_some(position, _BASE_OFFSET.size)
        return int(_BASE_OFFSET.unpack(head)[0]) if len(head) == _BASE_OFFSET.size else limit

    return Bounds(first, limit, following, epoch_span)


def check_range(
    segment: Segment, offset: int, to: int, limit: int, epoch_span: EpochSpan
) -> CheckedRange:
    """Checks the batches around `offset`, from an index entry before it up to position `to`.

    Stops at the first batch that is damaged or reaches `limit`.
    """
    position = segment.start_before(offset)
    if position:
        # Start one batch earlier: only the batch before shows whether an offset is right.
        position = segment.start_before_position(position - 1)
    next_offset = segment.base_offset
    while position < to:
        bounds = bounds_in(segment, next_offset, limit, epoch_span)
        data = segment.read_some(position, min(WALK_BYTES, to - position))
        if len(data) >= LOG_OVERHEAD:
            length = LOG_OVERHEAD + _LENGTH.unpack_from(data)[0]
            if len(data) < length <= segment.size - position:
                data = segment.read_some(position, length)
        checked = check_batches(data, position, bounds, most=MAX_BATCH_BYTES, until=to - position)
        position += checked.whole
        next_offset = checked.next
        if checked.bad is not None:
            return CheckedRange(position, next_offset, checked.bad)
        if not checked.whole:
            return CheckedRange(
                position, next_offset, BadBatch(position, "no complete batch begins there")
            )
    return CheckedRange(position, next_offset, None)


def next_readable_offset(segment: Segment, position: int, limit: int) -> int:
    """The first offset after damage at `position` from which the segment can be read again."""
    index = segment.index
    try:
        first = bisect_right(range(len(index)), position, key=lambda n: index.entry(n)[1])
        for number in range(first, len(index)):
            start = segment.entry_start(index.entry(number))
            if start is not None:
                return start
    except (CorruptIndex, FileNotFoundError):
        return limit  # everything up to the next segment counts as damaged
    return limit


def locate_damage(
    segment: Segment, offset: int, limit: int, epoch_span: EpochSpan, error: Exception
) -> Damage:
    """Finds the damage in a segment whose read at `offset` raised `error`."""
    path = segment.file.path
    if isinstance(error, FileNotFoundError):
        return Damage(path, 0, segment.base_offset, limit, "the file is missing")
    checked = check_range(segment, offset, segment.size, limit, epoch_span)
    if checked.bad is None:
        return Damage(path, checked.position, offset, limit, str(error))
    after = next_readable_offset(segment, checked.position, limit)
    return Damage(path, checked.position, checked.next_offset, after, checked.bad.reason)
