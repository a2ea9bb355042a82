"""A log's segments in order, and the files beside them in the partition's directory."""

from bisect import bisect_right
from operator import attrgetter

from headrace.storage.files.filesystem import FileSystem, remove_if_exists
from headrace.storage.files.open_files import OpenFiles
from headrace.storage.segment.segment import (
    DELETED,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    Segment,
    file_name,
)

_base_offset = attrgetter("base_offset")


class Segments:
    """Ascending by base offset; the last one, if any, is the active one.

    The list is replaced, never changed in place, so that a flush in another thread keeps the list
    that it started with.
    """

    __slots__ = ("files", "items", "path", "snapshots")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self.files = files
        self.path = path
        self.items: list[Segment] = []
        self.snapshots: list[int] = []  # offsets of the producer snapshots on disk, ascending

    @property
    def fs(self) -> FileSystem:
        return self.files.fs

    @property
    def active(self) -> Segment | None:
        return self.items[-1] if self.items else None

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.items)

    def slot_of(self, offset: int) -> int:
        """The index in `items` of the segment that holds `offset`; 0 if it is below the first."""
        items = self.items
        if items and items[-1].base_offset <= offset:
            return len(items) - 1
        return max(0, bisect_right(items, offset, key=_base_offset) - 1)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds `offset`, and all after it."""
        items = self.items
        return items[max(0, bisect_right(items, offset, key=_base_offset) - 1) :]

    def following(self, segment: Segment) -> Segment | None:
        """The segment after `segment`, which need not be in the list itself."""
        items = self.items
        place = bisect_right(items, segment.base_offset, key=_base_offset)
        return items[place] if place < len(items) else None

    def add(self, base_offset: int) -> Segment:
        """Creates an empty active segment; its name is durable once the directory is synced."""
        segment = Segment(self.files, self.path, base_offset)
        segment.create()
        self.items = [*self.items, segment]
        return segment

    def remove(self, segments: list[Segment]) -> None:
        """Removes files at once, last segment first: a crash in between leaves a shorter log."""
        doomed = set(segments)
        self.items = [segment for segment in self.items if segment not in doomed]
        for segment in sorted(doomed, key=lambda each: each.base_offset, reverse=True):
            segment.removed = True
            segment.close()
            for suffix in (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX):
                remove_if_exists(self.fs, segment.path + suffix)

    def retire(self, segments: list[Segment]) -> list[str]:
        """Renames files for later deletion, first segment first; returns the new paths.

        Renaming is quick. Deleting a large file is not, and readers may have it open.
        """
        doomed = set(segments)
        self.items = [segment for segment in self.items if segment not in doomed]
        return self._rename_deleted(doomed)

    def replace(self, segments: list[Segment], new: Segment) -> list[str]:
        """Replaces adjacent segments by `new`; returns the paths that are to be deleted.

        Their producer snapshots are deleted, too: a snapshot may hold an open transaction whose
        marker the cleaner has removed: the transaction would never end.
        """
        items = self.items
        place = items.index(segments[0])
        self.items = [*items[:place], new, *items[place + len(segments) :]]
        return self._rename_deleted(set(segments))

    def _rename_deleted(self, doomed: set[Segment]) -> list[str]:
        retired = []
        for segment in sorted(doomed, key=lambda each: each.base_offset):
            segment.removed = True
            segment.close()
            suffixes = [LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX]
            if segment.base_offset in self.snapshots:
                suffixes.append(SNAPSHOT)
                self.snapshots.remove(segment.base_offset)
            for suffix in suffixes:
                try:
                    self.fs.rename(segment.path + suffix, segment.path + suffix + DELETED)
                except FileNotFoundError:
                    continue
                retired.append(segment.path + suffix + DELETED)
        return retired

    def snapshot_path(self, offset: int) -> str:
        return f"{self.path}/{file_name(offset, SNAPSHOT)}"

    def remove_snapshots(self, *, above: int) -> bool:
        """Removes the snapshots past `above`; returns whether there were any."""
        doomed = [offset for offset in self.snapshots if offset > above]
        for offset in doomed:
            remove_if_exists(self.fs, self.snapshot_path(offset))
        self.snapshots = [offset for offset in self.snapshots if offset <= above]
        return bool(doomed)

    def remove_stray_snapshots(self) -> None:
        """Keeps a snapshot for each segment's start, and the latest."""
        kept = {segment.base_offset for segment in self.items} | set(self.snapshots[-1:])
        for offset in self.snapshots:
            if offset not in kept:
                remove_if_exists(self.fs, self.snapshot_path(offset))
        self.snapshots = [offset for offset in self.snapshots if offset in kept]

    def close(self) -> None:
        for segment in self.items:
            segment.close()
