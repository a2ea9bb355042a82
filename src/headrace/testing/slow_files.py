"""Real files with a configurable delay, to simulate a slow disk."""

import os
import time

from headrace.storage.files.filesystem import Buffer, RealFileSystem


class SlowFiles(RealFileSystem):
    """Every write and every flush takes `delay_s` longer."""

    def __init__(self) -> None:
        self.delay_s = 0.0

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> int:  # type: ignore[override]
        self._wait()
        return os.pwrite(fd, data, offset)

    def fsync(self, fd: int) -> None:
        self._wait()
        super().fsync(fd)

    def fsync_dir(self, path: str) -> None:
        self._wait()
        super().fsync_dir(path)

    def _wait(self) -> None:
        if self.delay_s:
            time.sleep(self.delay_s)
