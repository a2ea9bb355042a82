"""A new segment takes the place of those it was made from, and a crash finds one or the other.

Kafka's names: `.cleaned` files are a beginning that may be dropped; once all of them are `.swap`,
recovery completes what was begun. The order is the guarantee, and each line is on disk before
the next begins:

1. `.cleaned` -> `.swap`
2. the old segments' files -> `.deleted`; readers use the new segment from here on
3. `.log.swap` -> `.log`
4. the indexes' `.swap` -> their names

Threads: `step` belongs to the log's owner, `prepare` and `sync` may run elsewhere.
"""

import threading
from collections.abc import Sequence

from headrace.storage.cleaning.job import CleanedGroup
from headrace.storage.files.log_dir import LogDir
from headrace.storage.files.open_files import OpenFile
from headrace.storage.segment.segment import CLEANED, SWAP, Segment
from headrace.storage.segment.segments import Segments


class Swap:
    """One swap, from its beginning to its end."""

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
        directory: LogDir,
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
        """From here on, recovery completes the swap."""
        with self._lock:
            if self._prepared:
                return
            for file in self._files():
                self._segments.fs.rename(file.path + CLEANED, file.path + SWAP)
            self._segments.fs.fsync_dir(self._segments.path)
            self._prepared = True

    def step(self) -> bool:
        """The next renames; False if there are none left."""
        with self._lock:
            if self.is_done:
                return False
            _STEPS[self._step](self)
            self._step += 1
            return True

    def sync(self) -> None:
        """Makes the last step durable."""
        self._segments.fs.fsync_dir(self._segments.path)

    def finish(self) -> None:
        """All that is left to do, at once; blocks."""
        with self._lock:
            self.prepare()
            while self.step():
                self.sync()

    def _files(self) -> list[OpenFile]:
        """The log and the indexes that the new segment has."""
        files = self._new.open_files()
        return files if self._has_txns else files[:-1]

    def _replace(self) -> None:
        for file in self._files():
            file.path += SWAP
        for path in self._segments.replace(self._old, self._new):
            self._directory.trash.add_file(path, self._delay_ms)

    def _name_log(self) -> None:
        self._name(self._files()[:1])

    def _name_indexes(self) -> None:
        self._name(self._files()[1:])

    def _name(self, files: Sequence[OpenFile]) -> None:
        for file in files:
            path = file.path.removesuffix(SWAP)
            self._segments.fs.rename(file.path, path)
            file.path = path


_STEPS = (Swap._replace, Swap._name_log, Swap._name_indexes)


def replaceable(segments: Segments, group: CleanedGroup) -> list[Segment] | None:
    """The segments that the group was made from, if they are still there, side by side."""
    items = segments.items
    place = segments.slot_of(group.sources[0])
    found = items[place : place + len(group.sources)]
    if place + len(found) >= len(items):
        return None  # the active segment is never replaced
    if tuple(segment.base_offset for segment in found) != tuple(group.sources):
        return None
    return found
