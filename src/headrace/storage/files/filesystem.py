"""Access to files.

Storage uses files only through `FileSystem`, so that a test double in memory can lose bytes that
were not synced, tear the last write or fail the n-th call. The real one calls the operating system
directly. Every failure is an `OSError` with its `errno`.
"""
# ruff: noqa: PTH102, PTH105, PTH106, PTH108, PTH116
# Plain string paths: a broker has tens of thousands of them, and creating a Path object takes
# longer than the system call that uses it.

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from typing import NamedTuple, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

FILE_MODE = 0o644
DIRECTORY_MODE = 0o755
TEMPORARY_SUFFIX = ".tmp"
PIECE_BYTES = 64 * 1024  # the size of one write of `write_in_pieces`


class FileInfo(NamedTuple):
    """The size and times of a file."""

    size: int
    modified_ms: int
    is_dir: bool


class DirEntry(NamedTuple):
    """One name in a directory."""

    name: str
    is_dir: bool


class FileSystem(Protocol):
    """The file operations that storage needs, with POSIX semantics."""

    def open(self, path: str, *, create: bool = False) -> int:
        """A descriptor for reading and writing; without `create` the file must exist."""
        ...

    def close(self, fd: int) -> None: ...

    def size(self, fd: int) -> int: ...

    def pread(self, fd: int, size: int, offset: int, /) -> bytes: ...

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> int:
        """Writes at `offset`; returns the number of bytes written, perhaps fewer than given."""
        ...

    def truncate(self, fd: int, size: int) -> None: ...

    def fsync(self, fd: int) -> None:
        """Returns once the file's bytes and its length are on stable storage."""
        ...

    def fsync_dir(self, path: str) -> None:
        """Returns once the names in the directory are on stable storage."""
        ...

    def sync_all(self, path: str) -> None:
        """Returns once everything on the file system that holds `path` is on stable storage."""
        ...

    def list_dir(self, path: str) -> list[DirEntry]: ...

    def stat(self, path: str) -> FileInfo: ...

    def mkdir(self, path: str) -> None:
        """Creates one directory; its parent must exist."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces `target` if it is a file."""
        ...

    def remove(self, path: str) -> None: ...

    def rmdir(self, path: str) -> None: ...

    def lock(self, path: str) -> int:
        """Locks the file for this process; raises `BlockingIOError` if another process has it."""
        ...


class RealFileSystem:
    """The operating system's files."""

    __slots__ = ()

    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)

    def open(self, path: str, *, create: bool = False) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return os.open(path, flags, FILE_MODE)

    def close(self, fd: int) -> None:
        os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def fsync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
            if syncfs is None:
                os.sync()
            elif syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), path)
        finally:
            os.close(fd)

    def list_dir(self, path: str) -> list[DirEntry]:
        with os.scandir(path) as entries:
            return [DirEntry(entry.name, entry.is_dir()) for entry in entries]

    def stat(self, path: str) -> FileInfo:
        found = os.stat(path)
        return FileInfo(
            found.st_size, found.st_mtime_ns // 1_000_000, (found.st_mode & 0o170000) == 0o040000
        )

    def mkdir(self, path: str) -> None:
        os.mkdir(path, DIRECTORY_MODE)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def lock(self, path: str) -> int:
        # Both kinds: a JVM uses POSIX record locks, but these do not exclude a second broker in
        # this process; flock does.
        fd = self.open(path, create=True)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd


def is_disk_full(error: OSError) -> bool:
    """Whether the disk is full, or the quota of this process is used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def write_all(fs: FileSystem, fd: int, data: Buffer, offset: int) -> None:
    """Writes every byte of `data` at `offset`, with as many calls as needed."""
    written = fs.pwrite(fd, data, offset)
    if written == len(data):
        return
    view = memoryview(data)
    while written < len(view):
        written += fs.pwrite(fd, view[written:], offset + written)


def write_in_pieces(fs: FileSystem, fd: int, data: Buffer, offset: int) -> None:
    """Writes every byte in pieces, and yields the processor to other processes between them.

    A write of a megabyte can take milliseconds, and a process that wakes up meanwhile would wait.
    For data that no client waits for: each piece may be delayed while other processes run.
    """
    view = memoryview(data)
    written = 0
    while written < len(view):
        if written:
            os.sched_yield()
        written += fs.pwrite(fd, view[written : written + PIECE_BYTES], offset + written)


def read_exactly(fs: FileSystem, fd: int, size: int, offset: int) -> bytes:
    """`size` bytes at `offset`; fewer only if the file ends before."""
    data = fs.pread(fd, size, offset)
    while len(data) < size:
        more = fs.pread(fd, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def read_file(fs: FileSystem, path: str) -> bytes:
    """A small file's bytes."""
    fd = fs.open(path)
    try:
        return read_exactly(fs, fd, fs.size(fd), 0)
    finally:
        fs.close(fd)


def write_file(fs: FileSystem, path: str, data: bytes, *, sync: bool) -> None:
    """Replaces the content of `path`; a crash may leave it torn or missing."""
    fd = fs.open(path, create=True)
    try:
        fs.truncate(fd, 0)
        write_all(fs, fd, data, 0)
        if sync:
            fs.fsync(fd)
    finally:
        fs.close(fd)


def sync_file(fs: FileSystem, path: str) -> None:
    """Syncs a file that is not open, if it exists."""
    try:
        fd = fs.open(path)
    except FileNotFoundError:
        return
    try:
        fs.fsync(fd)
    finally:
        fs.close(fd)


def replace_file(fs: FileSystem, path: str, data: bytes) -> None:
    """Replaces the content of `path` atomically: after a crash it is the old or the new one.

    The order is the guarantee: the bytes are synced before the rename, and the rename before this
    function returns.
    """
    write_temporary(fs, path, data)
    rename_into_place(fs, path)


def write_temporary(fs: FileSystem, path: str, data: bytes) -> None:
    """The first half of `replace_file`: if it fails, `path` is unchanged."""
    write_file(fs, path + TEMPORARY_SUFFIX, data, sync=True)


def rename_into_place(fs: FileSystem, path: str) -> None:
    """The second half of `replace_file`: the temporary file becomes `path`."""
    fs.rename(path + TEMPORARY_SUFFIX, path)
    fs.fsync_dir(parent_of(path))


def exists(fs: FileSystem, path: str) -> bool:
    try:
        fs.stat(path)
    except FileNotFoundError:
        return False
    return True


def remove_if_exists(fs: FileSystem, path: str) -> bool:
    """Removes a file; returns whether it existed."""
    try:
        fs.remove(path)
    except FileNotFoundError:
        return False
    return True


def remove_tree(fs: FileSystem, path: str) -> None:
    """Removes a directory and its content; missing parts are ignored."""
    try:
        entries = fs.list_dir(path)
    except FileNotFoundError:
        return
    for name, is_dir in entries:
        if is_dir:
            remove_tree(fs, f"{path}/{name}")
        else:
            remove_if_exists(fs, f"{path}/{name}")
    try:
        fs.rmdir(path)
    except FileNotFoundError:
        return


def make_directories(fs: FileSystem, path: str) -> None:
    """Creates `path` and its missing parents."""
    for missing in reversed(list(_missing(fs, path))):
        try:
            fs.mkdir(missing)
        except FileExistsError:
            continue
        fs.fsync_dir(parent_of(missing))


def _missing(fs: FileSystem, path: str) -> Iterator[str]:
    while path and not exists(fs, path):
        yield path
        path = parent_of(path)


def parent_of(path: str) -> str:
    parent = path.rpartition("/")[0]
    return parent or ("/" if path.startswith("/") else ".")
