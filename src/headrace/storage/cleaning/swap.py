"""Replaces segments by their compacted segment; a crash at any point loses no record.

The file names are Kafka's: `.cleaned` files are unfinished and may be deleted; once all of them are
`.swap`, recovery completes the swap. The order is the guarantee, and each step is on disk before
the next begins:

1. `.cleaned` -> `.swap`
2. the old segments' files -> `.deleted`; readers use the new segment from here on
3. `.log.swap` -> `.log`
4. the indexes' `.swap` -> their names

Threads: `step` runs in the owner's thread, `prepare` and `sync` in any thread.
"""

import threading
from collections.abc import Sequence

from headrace.storage.cleaning.cleaner_messages import CleanedGroup
from headrace.storage.files.log_dir_state import LogDirState
from headrace.storage.files.open_files import OpenFile
from headrace.storage.segment.segment import CLEANED, SWAP, Segment
from headrace.storage.segment.segments import Segments


class Swap:
    """The swap of one group of segments."""

    __slots__ = (
        "_delay_ms",
        "_directory",
        "_has_txns",
        "_lock",
        "_new",
        "_old",
        "_prepared",
        "_segments",
        "_step",
    )

    def __init__(
        self,
        segments: Segments,
        old: Sequence[Segment],
        group: CleanedGroup,
        directory: LogDirState,
        delay_ms: int,
    ) -> None:
        self._segments = segments
        self._old = list(old)
        self._directory = directory
        self._delay_ms = delay_ms
        self._new = Segment(
            segments.files,
            segments.path,
            old[0].base_offset,
            size=group.size,
            index_size=group.index_bytes,
            times_size=group.times_bytes,
            has_txns=group.has_txns,
        )
        self._has_txns = group.has_txns
        self._lock = threading.RLock()
        self._prepared = False
        self._step = 0

    @property
    def is_done(self) -> bool:
        return self._step == len(_STEPS)

    def prepare(self) -> None:
        """Renames `.cleaned` files to `.swap`: from here on, recovery completes the swap."""
        with self._lock:
            if self._prepared:
                return
            for file in self._files():
                self._segments.fs.rename(file.path + CLEANED, file.path + SWAP)
            self._segments.fs.fsync_dir(self._segments.path)
            self._prepared = True

    def step(self) -> bool:
        """Makes the next renames; returns False if none are left."""
        with self._lock:
            if self.is_done:
                return False
            _STEPS[self._step](self)
            self._step += 1
            return True

    def sync(self) -> None:
        """Syncs the last step."""
        self._segments.fs.fsync_dir(self._segments.path)

    def finish(self) -> None:
        """Completes the remaining steps. Blocks."""
        with self._lock:
            self.prepare()
            while self.step():
                self.sync()

    def _files(self) -> list[OpenFile]:
        """The new segment's log and indexes."""
        files = self._new.open_files()
        return files if self._has_txns else files[:-1]

    def _replace_segments(self) -> None:
        for file in self._files():
            file.path += SWAP
        for path in self._segments.replace(self._old, self._new):
            self._directory.delayed_delete.add_file(path, self._delay_ms)

    def _rename_log(self) -> None:
        self._remove_swap_suffix(self._files()[:1])

    def _rename_indexes(self) -> None:
        self._remove_swap_suffix(self._files()[1:])

    def _remove_swap_suffix(self, files: Sequence[OpenFile]) -> None:
        for file in files:
            path = file.path.removesuffix(SWAP)
            self._segments.fs.rename(file.path, path)
            file.path = path


_STEPS = (Swap._replace_segments, Swap._rename_log, Swap._rename_indexes)


def replaceable(segments: Segments, group: CleanedGroup) -> list[Segment] | None:
    """The segments that the group was compacted from, if they still exist and adjoin."""
    items = segments.items
    place = segments.slot_of(group.sources[0])
    found = items[place : place + len(group.sources)]
    if place + len(found) >= len(items):
        return None  # the active segment is never replaced
    if tuple(segment.base_offset for segment in found) != tuple(group.sources):
        return None
    return found
