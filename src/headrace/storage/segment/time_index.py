"""The sparse map from timestamps to offsets in one segment (`.timeindex`).

An entry (timestamp, offset) says: no record up to that offset is newer than the timestamp. Both
columns ascend. The last entry of a rolled segment holds the segment's largest timestamp, which
retention by time uses.
"""

from struct import Struct

from headrace.storage.errors import CorruptIndex
from headrace.storage.files.open_files import OpenFiles
from headrace.storage.segment.index_file import IndexFile

ENTRY = Struct(">qi")


class TimeIndex(IndexFile):
    """Timestamp (int64) to relative offset (int32)."""

    __slots__ = ()

    def __init__(self, files: OpenFiles, path: str, size_bytes: int) -> None:
        super().__init__(files, path, ENTRY, ("q", "i"), size_bytes)

    def maybe_append(self, timestamp: int, relative_offset: int) -> None:
        """Adds an entry if its timestamp is later than the last one."""
        if timestamp > self.last_key:
            self.append(timestamp, relative_offset)

    def is_sane(self, size_bytes: int) -> bool:
        """Cheap checks for damage: a torn entry, descending timestamps or offsets."""
        if size_bytes % ENTRY.size:
            return False
        try:
            last = self.last()
            if last is None:
                return True
            first = self.entry(0)
        except CorruptIndex:
            return False
        return first[0] <= last[0] and 0 <= first[1] <= last[1]
