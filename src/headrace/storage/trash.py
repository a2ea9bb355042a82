"""What is to be removed from the disk, later and elsewhere.

Removing large files takes time that an event loop does not have. The owner renames and adds; a
sweep in any thread removes what is due. A name that a crash leaves behind is removed when its
directory is opened.
"""

import logging
from collections import deque

from headrace.storage.filesystem import FileSystem, remove_if_there, remove_tree

log = logging.getLogger(__name__)


class Trash:
    """Paths and when they may go (wall clock); safe between one adder and one sweeper."""

    __slots__ = ("_fs", "_waiting")

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._waiting: deque[tuple[int, str, bool]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add_file(self, path: str, due_ms: int) -> None:
        self._waiting.append((due_ms, path, False))

    def add_tree(self, path: str, due_ms: int) -> None:
        self._waiting.append((due_ms, path, True))

    def sweep(self, now_ms: int) -> int:
        """Removes what is due; returns how many paths. A failure is logged, not raised."""
        removed = 0
        for _ in range(len(self._waiting)):
            due_ms, path, is_tree = item = self._waiting.popleft()
            if due_ms > now_ms:
                self._waiting.append(item)
                continue
            try:
                if is_tree:
                    remove_tree(self._fs, path)
                else:
                    remove_if_there(self._fs, path)
                removed += 1
            except OSError as error:
                log.warning("could not remove", extra={"path": path, "reason": str(error)})
        return removed
