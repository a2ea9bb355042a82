"""Files and directories that are deleted later, in another thread.

Deleting large files would block the event loop. The owner renames them and adds them here; a sweep
in any thread deletes those that are due. Names that a crash leaves are deleted when their directory
is opened.
"""

import logging
from collections import deque
from collections.abc import Callable

from headrace.storage.files.filesystem import FileSystem, parent_of, remove_if_exists, remove_tree

log = logging.getLogger(__package__)


class DelayedDelete:
    """Paths and the times at which they are due. Safe for one adding and one sweeping thread.

    Uses the monotonic clock: a wall clock that is set back must not delay deletion.
    """

    __slots__ = ("_fs", "_monotonic", "_waiting")

    def __init__(self, fs: FileSystem, monotonic: Callable[[], float]) -> None:
        self._fs = fs
        self._monotonic = monotonic
        self._waiting: deque[tuple[float, str, bool]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add_file(self, path: str, delay_ms: int = 0) -> None:
        self._waiting.append((self._monotonic() + delay_ms / 1000, path, False))

    def add_tree(self, path: str, delay_ms: int = 0) -> None:
        self._waiting.append((self._monotonic() + delay_ms / 1000, path, True))

    def sweep(self) -> int:
        """Deletes the paths that are due; returns how many. A failure is logged, not raised.

        The renames are synced first: after a crash, recovery must find either the file or its new
        name.
        """
        removed, now_s = 0, self._monotonic()
        synced: set[str] = set()
        for _ in range(len(self._waiting)):
            due_s, path, is_tree = item = self._waiting.popleft()
            if due_s > now_s:
                self._waiting.append(item)
                continue
            try:
                if is_tree:
                    remove_tree(self._fs, path)
                else:
                    parent = parent_of(path)
                    if parent not in synced:
                        self._fs.fsync_dir(parent)
                        synced.add(parent)
                    remove_if_exists(self._fs, path)
                removed += 1
            except FileNotFoundError:
                removed += 1  # its directory is gone
            except OSError as error:
                log.warning(
                    "could not delete a file of a deleted log; the next start tries again",
                    extra={"path": path, "reason": str(error)},
                )
        return removed
