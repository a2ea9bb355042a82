"""The latest offset of each key in the dirty part of a log, in bounded memory."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from headrace.records.batch_header import BatchHeader
from headrace.storage.cleaning.record_selection import map_keys


class KeyMap:
    """The latest offset of each key in the offsets from `first` up to `end`."""

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
        """Adds the records in data[pos:end]."""
        if header.base_offset >= self.first:
            found = self.latest
            has_tombstones = map_keys(header, data, pos, end, found)
        else:
            found = {}
            has_tombstones = map_keys(header, data, pos, end, found)
            self.latest.update((key, at) for key, at in found.items() if at >= self.first)
        if has_tombstones:
            self._with_tombstones.add(header.base_offset)

    def complete(self) -> None:
        """Prepares the map for `survivors`, after the last `add`."""
        self._last_of_key = array("q", sorted(self.latest.values()))

    def survivors(self, header: BatchHeader) -> Sequence[int] | None:
        """The offsets of a batch's records that are the latest of their keys; None if unknown.

        They are known for batches that are wholly in the map and have no tombstone.
        """
        first, last = header.base_offset, header.last_offset
        offsets = self._last_of_key
        if first < self.first or last >= self.end or first in self._with_tombstones:
            return None
        return offsets[bisect_left(offsets, first) : bisect_left(offsets, last + 1)]
