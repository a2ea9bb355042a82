"""The latest offset of each key in the dirty part of a log, in bounded memory.

The walk over a payload is the cleaner's inner loop: one pass, local variables, no objects but the
keys. Each record is a length, a byte of attributes, the deltas of time and offset, then key and
value with their lengths; all lengths and deltas are zigzag varints, whose lowest bit is the sign.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b

from headrace.records.batch import BatchHeader
from headrace.storage.cleaning.segment_reader import Uncleanable

# Longer keys are kept as a digest, which is longer than any key that is kept as it is.
MAX_PLAIN_KEY_BYTES = 32
DIGEST_BYTES = 33
_MAX_PLAIN_KEY = MAX_PLAIN_KEY_BYTES << 1
_MAX_SHIFT = 63


class KeyMap:
    """Knows all offsets from `first` up to `end`, and of each key in them the latest."""

    __slots__ = ("_last_of_key", "_with_tombstones", "end", "first", "latest", "max_keys")

    def __init__(self, first: int, max_keys: int) -> None:
        self.first = first
        self.end = first
        self.max_keys = max_keys
        self.latest: dict[bytes, int] = {}
        self._with_tombstones: set[int] = set()  # base offsets of batches
        self._last_of_key: array[int] = array("q")

    @property
    def is_full(self) -> bool:
        return len(self.latest) >= self.max_keys

    def add(self, header: BatchHeader, data: bytes, pos: int, end: int) -> None:
        """Takes in the records in data[pos:end]."""
        if header.base_offset >= self.first:
            found = self.latest
            has_tombstones = note_keys(header, data, pos, end, found)
        else:
            found = {}
            has_tombstones = note_keys(header, data, pos, end, found)
            self.latest.update((key, at) for key, at in found.items() if at >= self.first)
        if has_tombstones:
            self._with_tombstones.add(header.base_offset)

    def complete(self) -> None:
        """Everything is in the map: makes it ready for `survivors`."""
        self._last_of_key = array("q", sorted(self.latest.values()))

    def survivors(self, header: BatchHeader) -> Sequence[int] | None:
        """The offsets of a batch's records that are the last of their key; None: one must look.

        Only of batches that are wholly in the map and hold no tombstone can that be said.
        """
        first, last = header.base_offset, header.last_offset
        offsets = self._last_of_key
        if first < self.first or last >= self.end or first in self._with_tombstones:
            return None
        return offsets[bisect_left(offsets, first) : bisect_left(offsets, last + 1)]


def note_keys(
    header: BatchHeader, data: bytes, pos: int, end: int, latest: dict[bytes, int]
) -> bool:
    """Notes the offset of each key in data[pos:end]; whether a record has no value."""
    base = header.base_offset
    last_delta = header.last_offset_delta << 1
    has_tombstones = False
    try:
        for _ in range(header.record_count):
            size = data[pos]
            pos += 1
            if size > 127:
                size += (data[pos] - 1) << 7
                pos += 1
                if size > 16383:
                    size, pos = longer(data, pos, size)
            record_end = pos + (size >> 1)
            pos += 1
            while data[pos] > 127:
                pos += 1
            delta = data[pos + 1]
            pos += 2
            if delta > 127:
                delta += (data[pos] - 1) << 7
                pos += 1
                if delta > 16383:
                    delta, pos = longer(data, pos, delta)
            length = data[pos]
            pos += 1
            if length > 127:
                length, pos = longer(data, pos, length, 7)
            if length & 1:
                pos = record_end
                continue  # a record without a key, from before the topic was compacted
            value_at = pos + (length >> 1)
            if value_at >= record_end or size & 1 or delta > last_delta:
                raise IndexError
            key = data[pos:value_at]
            if length > _MAX_PLAIN_KEY:
                key = blake2b(key, digest_size=DIGEST_BYTES).digest()
            latest[key] = base + (delta >> 1)
            if data[value_at] & 1:
                has_tombstones = True
            pos = record_end
    except IndexError:
        pos = -1
    if pos != end:
        raise unreadable(header)
    return has_tombstones


def longer(data: bytes, pos: int, value: int, shift: int = 14) -> tuple[int, int]:
    """The rest of a varint whose first bytes gave `value`, the last of them with its top bit."""
    value -= 1 << shift
    while True:
        byte = data[pos]
        pos += 1
        value += (byte & 0x7F) << shift
        if byte < 128:
            return value, pos
        shift += 7
        if shift > _MAX_SHIFT:
            raise IndexError


def unreadable(header: BatchHeader) -> Uncleanable:
    return Uncleanable(f"the records of the batch at offset {header.base_offset} are damaged")
