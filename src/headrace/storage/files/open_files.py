"""A bounded number of open files.

Ten thousand partitions have tens of thousands of files. A process has fewer descriptors, and needs
some for connections. `OpenFiles` keeps recently used files open and closes the others; an
`OpenFile` is opened again when it is used.

Threads: `acquire` and `OpenFiles` belong to the owner's thread. Only that thread closes files that
exceed the limit, so a descriptor that it has just acquired stays valid while it is used. Other
threads use `pinned`, which keeps the file open meanwhile.
"""

import resource
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.storage.files.filesystem import FileSystem

# Half of the process's descriptors are for log files, half for connections and other files.
FILE_SHARE = 0.5
MIN_OPEN_FILES = 16
# Above this, keeping more files open saves no measurable time.
MAX_OPEN_FILES = 16_384
# The number of files that are examined to find one to close: enough to skip the busy ones, and few
# enough that opening stays cheap when all are busy.
MAX_EXAMINED = 32


def default_open_files() -> int:
    """The number of log files to keep open, by this process's limit."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return MAX_OPEN_FILES
    return max(MIN_OPEN_FILES, min(int(soft_limit * FILE_SHARE), MAX_OPEN_FILES))


class OpenFile:
    """One file that is opened when it is used."""

    __slots__ = ("_files", "_forgotten", "_pins", "dirty", "fd", "path", "used")

    def __init__(self, files: "OpenFiles", path: str) -> None:
        self.path = path
        self.fd = -1
        self.dirty = False
        self._files = files
        self.used = False
        self._pins = 0
        self._forgotten = False

    def acquire(self, *, create: bool = False) -> int:
        """The descriptor, valid until the owner's thread acquires another file."""
        self.used = True
        fd = self.fd
        return fd if fd >= 0 else self._files.open(self, create=create)

    def forget(self) -> None:
        """Closes the file, now or when the last thread unpins it."""
        self._files.forget(self)

    @contextmanager
    def pinned(self) -> Iterator[int]:
        """The descriptor for another thread than the owner's."""
        fd = self._files.pin(self)
        try:
            yield fd
        finally:
            self._files.unpin(self)


class OpenFiles:
    """The open files of one broker, at most `limit` of them (pinned ones may exceed it)."""

    __slots__ = ("_lock", "_open", "fs", "limit")

    def __init__(self, fs: FileSystem, limit: int) -> None:
        self.fs = fs
        self.limit = limit
        self._lock = threading.Lock()
        # In the order in which they are examined. A plain dict finds its first key slowly after
        # many removals.
        self._open: OrderedDict[OpenFile, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, file: OpenFile, *, create: bool = False) -> int:
        with self._lock:
            if file.fd < 0:
                while len(self._open) >= self.limit and self._make_room():
                    pass
                self._open_locked(file, create=create)
            return file.fd

    def pin(self, file: OpenFile) -> int:
        with self._lock:
            if file.fd < 0:
                self._open_locked(file, create=False)
            file._pins += 1
            return file.fd

    def unpin(self, file: OpenFile) -> None:
        with self._lock:
            file._pins -= 1
            if file._forgotten and file._pins == 0:
                self._close_locked(file)

    def forget(self, file: OpenFile) -> None:
        with self._lock:
            if file._pins:
                file._forgotten = True
            else:
                self._close_locked(file)

    def _open_locked(self, file: OpenFile, *, create: bool) -> None:
        file.fd = self.fs.open(file.path, create=create)
        file._forgotten = False
        self._open[file] = None

    def _close_locked(self, file: OpenFile) -> None:
        self._open.pop(file, None)
        fd, file.fd = file.fd, -1
        if fd >= 0:
            self.fs.close(fd)

    def _make_room(self) -> bool:
        """Closes one file that was not used since it was last examined (second chance).

        Files with unsynced bytes are closed last: a write-back error is reported most reliably to a
        descriptor that was open when the bytes were written.
        """
        spare: OpenFile | None = None
        for _ in range(min(2 * len(self._open), MAX_EXAMINED)):
            file = next(iter(self._open))
            if not (file.used or file._pins or file.dirty):
                self._close_locked(file)
                return True
            if spare is None and not (file.used or file._pins):
                spare = file
            file.used = False
            self._open.move_to_end(file)
        if spare is None:
            spare = next((file for file in self._open if not file._pins), None)
        if spare is not None:
            self._close_locked(spare)
        return spare is not None
