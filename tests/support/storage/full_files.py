"""A disk that a test can make full."""

import errno
import os

from headrace.storage.files.filesystem import Buffer, RealFileSystem


class FullFiles(RealFileSystem):
    """The operating system's files; writes fail while `is_full` is set."""

    __slots__ = ("is_full",)

    def __init__(self) -> None:
        self.is_full = False

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> int:  # type: ignore[override]
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwrite(fd, data, offset)
