"""What is to be removed from the disk, later and elsewhere.

Removing large files takes time that an event loop does not have. The owner renames and adds; a
sweep in any thread removes what is due. A name that a crash leaves behind is removed when its
directory is opened.
"""

import logging
from collections import deque
from collections.abc import Callable

from headrace.storage.files.filesystem import FileSystem, parent_of, remove_if_there, remove_tree

log = logging.getLogger(__name__)


class DelayedDelete:
    """Paths and when they may go; safe between one adder and one sweeper.

    By the steady clock: one that is set back must not keep for days what fills a disk.
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
        """Removes what is due; returns how many paths. A failure is logged, not raised.

        The new names are on disk first: what recovery finds missing was not retired otherwise.
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
                    remove_if_there(self._fs, path)
                removed += 1
            except FileNotFoundError:
                removed += 1  # its directory is gone
            except OSError as error:
                log.warning("could not remove", extra={"path": path, "reason": str(error)})
        return removed
