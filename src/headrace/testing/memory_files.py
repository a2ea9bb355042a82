"""Files in memory that can lose power, tear writes, fill up and fail.

`MemoryFileSystem` has the semantics of POSIX files after a crash, at their strictest: bytes that no
`fsync` covered may be kept, lost, or kept in part; the same holds for names, removals and renames
that no `fsync_dir` covered. Every call that changes something is counted, so a test can cut the
power after the n-th, or make it fail, for each n.
"""

import errno
import os
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from headrace.storage.files.filesystem import Buffer, DirEntry, FileInfo

SECTOR_BYTES = 512


class PowerLoss(BaseException):
    """The machine is off. Not an `Exception`, so that the code under test cannot handle it."""


class MemoryFile:
    """A file's bytes as the process sees them, and as they are on disk."""

    __slots__ = ("data", "disk", "pending")

    def __init__(self, disk: bytes = b"") -> None:
        self.data = bytearray(disk)
        self.disk = disk
        # The changes since the last sync, in order: (offset, bytes), or (size, None) for a
        # truncation.
        self.pending: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        self.disk = bytes(self.data)
        self.pending = []

    def survivor(self, rng: Random) -> bytes:
        """The bytes after a crash: some of the changes, the last of them perhaps in part."""
        if not self.pending:
            return self.disk
        if rng.random() < 0.5:
            return self._prefix(rng)
        return self._sectors(rng)

    def _prefix(self, rng: Random) -> bytes:
        data = bytearray(self.disk)
        kept = rng.randint(0, len(self.pending))
        for at, change in self.pending[:kept]:
            _apply(data, at, change)
        if kept < len(self.pending):
            at, change = self.pending[kept]
            if change is not None:
                _apply(data, at, change[: rng.randint(0, len(change))])
        return bytes(data)

    def _sectors(self, rng: Random) -> bytes:
        size = rng.choice((len(self.disk), len(self.data)))
        data = bytearray(size)
        for start in range(0, size, SECTOR_BYTES):
            source = rng.choice((self.disk, self.data))
            piece = source[start : min(start + SECTOR_BYTES, size)]
            data[start : start + len(piece)] = piece
        return bytes(data)


class MemoryDir:
    """A directory's names as the process sees them, and as they are on disk."""

    __slots__ = ("disk", "names", "pending")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.disk: dict[str, Node] = {}
        # Changes since the last sync: names and their nodes, None for a removed name.
        self.pending: list[dict[str, Node | None]] = []

    def change(self, change: "dict[str, Node | None]") -> None:
        _rename(self.names, change)
        self.pending.append(change)

    def sync(self) -> None:
        self.disk = dict(self.names)
        self.pending = []

    def survivor(self, rng: Random) -> "dict[str, Node]":
        """The names after a crash: any of the changes, in order, each one complete."""
        names = dict(self.disk)
        for change in self.pending:
            if rng.random() < 0.5:
                _rename(names, change)
        return names


Node: TypeAlias = MemoryFile | MemoryDir


class MemoryFileSystem:
    """A `FileSystem` whose disk can be made to fail.

    `operations` counts the calls that change something. The power fails *after* `power_fails_at`
    such calls. Call number `fault_at` raises `fault_errno`, once or from then on.
    """

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.root = MemoryDir()
        self.capacity_bytes = capacity_bytes
        self.now_ms = 0
        self.operations = 0
        self.power_fails_at: int | None = None
        self.fault_at: int | None = None
        self.fault_errno = errno.EIO
        self.fault_lasts = False
        self.fault_on: Callable[[str], bool] = lambda _operation: True
        self.sync_works = True  # False: fsync returns without effect, as on a disk that ignores it
        self.is_off = False
        self._open: dict[int, MemoryFile] = {}
        self._next_fd = 3
        self._locked: dict[int, str] = {}

    # --- faults ---------------------------------------------------------------------------------

    def after_power_loss(self, rng: Random | None) -> "MemoryFileSystem":
        """The files after a power failure; without `rng`, all unsynced changes are lost."""
        after = MemoryFileSystem(capacity_bytes=self.capacity_bytes)
        after.root = _copy_after_loss(self.root, rng)
        after.sync_works = self.sync_works
        return after

    def after_kill(self) -> "MemoryFileSystem":
        """The files after the process was killed: nothing is lost, and nothing is synced."""
        after = MemoryFileSystem(capacity_bytes=self.capacity_bytes)
        after.root = self.root
        after.sync_works = self.sync_works
        return after

    def _begin_change(self, operation: str) -> None:
        """Counts a change; raises the fault that is set for it."""
        if self.is_off:
            raise PowerLoss
        self.operations += 1
        if self.fault_at is not None and self.fault_on(operation):
            due = self.operations == self.fault_at
            if due or (self.fault_lasts and self.operations > self.fault_at):
                raise OSError(self.fault_errno, os.strerror(self.fault_errno))

    def _end_change(self) -> None:
        """Called after a change; raises `PowerLoss` if the power fails now."""
        if self.power_fails_at is not None and self.operations >= self.power_fails_at:
            self.is_off = True
            raise PowerLoss

    # --- paths ----------------------------------------------------------------------------------

    def _find(self, path: str) -> Node:
        node: Node = self.root
        for part in _parts(path):
            if not isinstance(node, MemoryDir):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            found = node.names.get(part)
            if found is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = found
        return node

    def _directory(self, path: str) -> MemoryDir:
        node = self._find(path)
        if not isinstance(node, MemoryDir):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent(self, path: str) -> tuple[MemoryDir, str]:
        *parents, name = _parts(path)
        return self._directory("/".join(parents)), name

    # --- files ----------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> int:
        if self.is_off:
            raise PowerLoss
        parent, name = self._parent(path)
        node = parent.names.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._begin_change("create")
            node = MemoryFile()
            parent.change({name: node})
            self._end_change()
        if isinstance(node, MemoryDir):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        fd = self._next_fd
        self._next_fd += 1
        self._open[fd] = node
        return fd

    def close(self, fd: int) -> None:
        self._locked.pop(fd, None)
        del self._open[fd]

    def size(self, fd: int) -> int:
        return len(self._open[fd].data)

    def pread(self, fd: int, size: int, offset: int, /) -> bytes:
        if self.is_off:
            raise PowerLoss
        if size < 0 or offset < 0:
            raise OSError(errno.EINVAL, "offset or length is negative")
        return bytes(self._open[fd].data[offset : offset + size])

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> int:
        self._begin_change("write")
        taken = self._writable_bytes(len(data))
        file = self._open[fd]
        change = bytes(data[:taken])
        _apply(file.data, offset, change)
        file.pending.append((offset, change))
        self._end_change()
        return taken

    def _writable_bytes(self, wanted: int) -> int:
        if self.capacity_bytes is None:
            return wanted
        room = self.capacity_bytes - self.used_bytes()
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return min(room, wanted)

    def used_bytes(self) -> int:
        """The used part of the capacity."""
        return _size_of(self.root)

    def truncate(self, fd: int, size: int) -> None:
        self._begin_change("truncate")
        file = self._open[fd]
        _apply(file.data, size, None)
        file.pending.append((size, None))
        self._end_change()

    def fsync(self, fd: int) -> None:
        self._begin_change("fsync")
        if self.sync_works:
            self._open[fd].sync()
        self._end_change()

    def fsync_dir(self, path: str) -> None:
        self._begin_change("fsync_dir")
        directory = self._directory(path)
        if self.sync_works:
            directory.sync()
        self._end_change()

    def sync_all(self, path: str) -> None:
        self._begin_change("fsync")
        if self.sync_works:
            _sync_tree(self._directory(path))
        self._end_change()

    # --- names ----------------------------------------------------------------------------------

    def list_dir(self, path: str) -> list[DirEntry]:
        if self.is_off:
            raise PowerLoss
        names = self._directory(path).names
        return [DirEntry(name, isinstance(node, MemoryDir)) for name, node in names.items()]

    def stat(self, path: str) -> FileInfo:
        if self.is_off:
            raise PowerLoss
        node = self._find(path)
        if isinstance(node, MemoryDir):
            return FileInfo(0, self.now_ms, True)
        return FileInfo(len(node.data), self.now_ms, False)

    def mkdir(self, path: str) -> None:
        parent, name = self._parent(path)
        if name in parent.names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._begin_change("mkdir")
        parent.change({name: MemoryDir()})
        self._end_change()

    def rename(self, source: str, target: str) -> None:
        node = self._find(source)
        parent, name = self._parent(source)
        target_parent, target_name = self._parent(target)
        if parent is not target_parent:
            raise OSError(errno.EXDEV, "a rename to another directory is not supported", source)
        self._begin_change("rename")
        parent.change({name: None, target_name: node})
        self._end_change()

    def remove(self, path: str) -> None:
        if not isinstance(self._find(path), MemoryFile):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._forget(path)

    def rmdir(self, path: str) -> None:
        if self._directory(path).names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._forget(path)

    def _forget(self, path: str) -> None:
        parent, name = self._parent(path)
        self._begin_change("remove")
        parent.change({name: None})
        self._end_change()

    def lock(self, path: str) -> int:
        if path in self._locked.values():
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        fd = self.open(path, create=True)
        self._locked[fd] = path
        return fd


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _apply(data: bytearray, at: int, change: bytes | None) -> None:
    if change is None:
        del data[at:]
        data.extend(bytes(at - len(data)))
        return
    data.extend(bytes(max(0, at - len(data))))
    data[at : at + len(change)] = change


def _rename(names: dict[str, Node], change: dict[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _sync_tree(node: Node) -> None:
    node.sync()
    if isinstance(node, MemoryDir):
        for each in node.names.values():
            _sync_tree(each)


def _size_of(node: Node) -> int:
    if isinstance(node, MemoryFile):
        return len(node.data)
    return sum(_size_of(each) for each in node.names.values())


def _copy_after_loss(directory: MemoryDir, rng: Random | None) -> MemoryDir:
    after = MemoryDir()
    names = directory.disk if rng is None else directory.survivor(rng)
    for name, node in names.items():
        if isinstance(node, MemoryDir):
            after.names[name] = _copy_after_loss(node, rng)
        else:
            after.names[name] = MemoryFile(node.disk if rng is None else node.survivor(rng))
    after.disk = dict(after.names)
    return after
