"""Completes a compaction's swap that a crash interrupted, or deletes its unfinished files.

`.cleaned` files are deleted. If all files of a segment are `.swap`, the segments that it was made
from are deleted and the files get their final names; each step is on disk before the next.
"""

import logging

from headrace.storage.files.filesystem import remove_if_exists
from headrace.storage.files.open_files import OpenFiles
from headrace.storage.segment.segment import (
    CLEANED,
    DELETED,
    LOG,
    OFFSET_DIGITS,
    OFFSET_INDEX,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    Segment,
)

log = logging.getLogger(__package__)

_DROPPED_SUFFIXES = (DELETED, CLEANED, ".tmp")
_SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)


def recover_swaps(files: OpenFiles, path: str) -> set[str]:
    """Cleans up the directory; returns the names of the remaining files."""
    return _SwapRecovery(files, path).run()


class _SwapRecovery:
    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self._fs = files.fs
        self._path = path
        self._names = {entry.name for entry in self._fs.list_dir(path) if not entry.is_dir}

    def run(self) -> set[str]:
        swaps = sorted(name for name in self._names if name.endswith(SWAP))
        if swaps:
            swaps = self._drop_unfinished_swaps(swaps)
        for name in [name for name in self._names if name.endswith(_DROPPED_SUFFIXES)]:
            self._remove(name)
        if swaps:
            self._complete_swaps(swaps)
        return self._names

    def _drop_unfinished_swaps(self, swaps: list[str]) -> list[str]:
        """A `.cleaned` file shows that the renames from its offset on were not completed."""
        cleaned = [offset_of(name) for name in self._names if name.endswith(CLEANED)]
        begun = [name for name in swaps if cleaned and offset_of(name) >= min(cleaned)]
        for name in begun:
            self._remove(name)
        if begun:
            self._sync_directory()  # before the `.cleaned` file is deleted
        return [name for name in swaps if name not in begun]

    def _complete_swaps(self, swaps: list[str]) -> None:
        log.warning(
            "completing an interrupted compaction", extra={"path": self._path, "files": len(swaps)}
        )
        logs = [name for name in swaps if name.endswith(LOG + SWAP)]
        if logs:
            first = min(offset_of(name) for name in logs)
            end = max(self._end_of(name) for name in logs)
            for name in [*self._names]:
                if name.endswith(_SEGMENT_SUFFIXES) and first <= offset_of(name) < end:
                    self._remove(name)
            self._sync_directory()
            self._rename_swaps(logs)
        self._rename_swaps([name for name in swaps if name not in logs])

    def _end_of(self, name: str) -> int:
        """The offset after the last one in a `.log.swap` file."""
        base_offset = offset_of(name)
        size = self._fs.stat(f"{self._path}/{name}").size
        segment = Segment(self._files, self._path, base_offset, size=size)
        segment.file.path += SWAP
        try:
            return max(segment.next_offset(), base_offset + 1)
        finally:
            segment.close()

    def _rename_swaps(self, swaps: list[str]) -> None:
        for name in swaps:
            target = name.removesuffix(SWAP)
            self._fs.rename(f"{self._path}/{name}", f"{self._path}/{target}")
            self._names.discard(name)
            self._names.add(target)
        if swaps:
            self._sync_directory()

    def _remove(self, name: str) -> None:
        remove_if_exists(self._fs, f"{self._path}/{name}")
        self._names.discard(name)

    def _sync_directory(self) -> None:
        self._fs.fsync_dir(self._path)


def offset_of(name: str) -> int:
    """The offset in a file's name, -1 if there is none."""
    stem = name.partition(".")[0]
    return int(stem) if len(stem) == OFFSET_DIGITS and stem.isdecimal() else -1
