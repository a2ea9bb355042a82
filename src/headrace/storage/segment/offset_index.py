"""The sparse map from offsets to positions in one segment (`.index`).

Each entry is the last offset of a batch, relative to the segment's base, and the position at which
that batch begins. A reader starts at the entry at or before its offset and walks forward.
"""

from bisect import bisect_right
from struct import Struct

from headrace.storage.errors import CorruptIndex
from headrace.storage.files.open_files import OpenFiles
from headrace.storage.segment.index_file import IndexFile

ENTRY = Struct(">ii")


class OffsetIndex(IndexFile):
    """Relative offset (int32) to position (int32)."""

    __slots__ = ()

    def __init__(self, files: OpenFiles, path: str, size_bytes: int) -> None:
        super().__init__(files, path, ENTRY, ("i", "i"), size_bytes)

    def floor_value(self, position: int) -> tuple[int, int] | None:
        """The last entry whose position is at most `position`."""
        count = bisect_right(range(len(self)), position, key=lambda n: self.entry(n)[1])
        return self.entry(count - 1) if count else None

    def is_sane(self, size_bytes: int, log_size: int) -> bool:
        """Cheap checks for damage: a torn entry, an impossible last entry."""
        if size_bytes % ENTRY.size:
            return False
        try:
            last = self.last()
        except CorruptIndex:
            return False
        if last is None:
            return True
        return last[0] >= 0 and 0 <= last[1] < max(log_size, 1) and (last[0] > 0 or len(self) == 1)
