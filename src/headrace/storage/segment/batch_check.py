"""Checks whether the batches of a segment are intact. Pure.

The checksum covers a batch from its attributes on. The fields before (base offset, length, leader
epoch) are checked by their context: offsets ascend, a wrong length makes a wrong checksum, and the
log's leader epochs say which epoch wrote an offset.
"""

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from headrace.records.batch_header import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
)
from headrace.records.checksum import crc32c

# Base offset, length, leader epoch, magic, checksum, last offset delta.
_FIELDS = Struct(">qiibI2xi")
_BASE_OFFSET = Struct(">q")
_NOT_SEEN = -2

EpochSpan = Callable[[int], tuple[int, int]]
"""The leader epoch that wrote an offset, -1 if unknown, and the offset at which it ended."""


class BadBatch(Exception):
    """The bytes at `position` are not the next batch of the log."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"byte {position}: {reason}")
        self.position = position
        self.reason = reason


class Bounds(NamedTuple):
    """The range of offsets that the checked batches must be in."""

    first: int
    limit: int
    following: Callable[[int], int]  # returns the base offset of the batch at a position
    epoch_span: EpochSpan


class Checked(NamedTuple):
    """The intact part of the checked bytes."""

    size: int  # intact bytes
    whole: int  # the part of them in complete batches that were checked
    batches: int
    next: int  # the offset after the last of them
    bad: BadBatch | None = None


def check_batches(data: bytes, position: int, bounds: Bounds, *, most: int, until: int) -> Checked:
    """Checks the batches that begin in the first `until` bytes of `data`, `most` of them at most.

    `data` was read at `position` and may end inside a batch: an incomplete batch at the end counts
    as intact, because readers ignore it.
    """
    unpack, view, end = _FIELDS.unpack_from, memoryview(data), len(data)
    until = min(until, end - HEADER_SIZE + 1)
    next_offset, limit = bounds.first, bounds.limit
    at = count = epoch_end = 0
    epoch = _NOT_SEEN
    # The previous batch, if it does not continue the one before it: its offset may be wrong, which
    # only the next batch shows.
    doubtful: tuple[int, int] | None = None
    while at < until and count < most:
        base_offset, length, batch_epoch, magic, crc, delta = unpack(data, at)
        after = at + LOG_OVERHEAD + length
        reason = ""
        if base_offset < next_offset and doubtful is not None:
            break
        if magic != MAGIC or length < HEADER_SIZE - LOG_OVERHEAD or delta < 0:
            reason = "no batch begins there"
        elif not next_offset <= base_offset <= base_offset + delta < limit:
            reason = f"offset {base_offset} is not in [{next_offset}, {limit})"
        elif after > end:
            break
        elif crc32c(view[at + ATTRIBUTES_AT : after]) != crc:
            reason = "the checksum is wrong"
        elif batch_epoch != epoch or base_offset >= epoch_end:
            wrote, epoch_end = bounds.epoch_span(base_offset)
            epoch = batch_epoch
            if batch_epoch != wrote and NO_LEADER_EPOCH not in (wrote, batch_epoch):
                reason = f"its leader epoch is {batch_epoch}, but epoch {wrote} wrote {base_offset}"
        if reason:
            return Checked(at, at, count, next_offset, BadBatch(position + at, reason))
        doubtful = (at, next_offset) if base_offset > next_offset or not count else None
        next_offset = base_offset + delta + 1
        at = after
        count += 1
    if doubtful is not None:
        if end - at >= _BASE_OFFSET.size:
            following = _BASE_OFFSET.unpack_from(data, at)[0]
        else:
            following = bounds.following(position + at)
        if following < next_offset:
            at, next_offset = doubtful
            bad = BadBatch(position + at, f"offset {following} follows")
            return Checked(at, at, count - 1, next_offset, bad)
    return Checked(at if at < until and count == most else end, at, count, next_offset)
