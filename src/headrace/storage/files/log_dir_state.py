"""The state of one log directory, which works or fails as a whole.

A write or sync that fails takes the directory offline: its content is unknown from then on, so no
log in it is read or written until a restart. A full disk is different: it refuses new bytes and
keeps the old ones.
"""

import errno
import logging
from collections.abc import Callable

from headrace.storage.errors import DiskError, DiskFull, LogDirFailed
from headrace.storage.files.delayed_delete import DelayedDelete
from headrace.storage.files.filesystem import is_disk_full
from headrace.storage.files.open_files import OpenFiles

log = logging.getLogger(__package__)

# The process lacks a resource for the moment; the disk works.
_TRANSIENT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN})


class LogDirState:
    """A directory of partitions, and the state that its logs share.

    `save_recovery_points` writes this directory's recovery points at once: a log calls it before it
    removes records below its recovery point, so that recovery does not report them as lost.
    `on_failure` is called in the thread that takes the directory offline. `damaged` names the
    damaged logs, `full` the logs whose last append a full disk refused; `refused_appends` counts
    all appends that it refused.
    """

    __slots__ = (
        "_on_failure",
        "damaged",
        "delayed_delete",
        "failure",
        "files",
        "full",
        "path",
        "refused_appends",
        "save_recovery_points",
    )

    def __init__(
        self,
        path: str,
        files: OpenFiles,
        delayed_delete: DelayedDelete,
        save_recovery_points: Callable[[], None] = lambda: None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self.files = files
        self.delayed_delete = delayed_delete
        self.save_recovery_points = save_recovery_points
        self._on_failure = on_failure
        self.failure: LogDirFailed | None = None
        self.damaged: set[str] = set()
        self.full: set[str] = set()
        self.refused_appends = 0

    def fault(self, error: OSError, doing: str) -> DiskError:
        """The storage error for `error`; takes the directory offline unless a retry may succeed."""
        reason = f"{doing} failed: {error.strerror or error}"
        if is_disk_full(error):
            return DiskFull(reason, self.path)
        if error.errno in _TRANSIENT:
            return DiskError(reason)
        return self.fail(reason)

    def fail(self, reason: str) -> LogDirFailed:
        """Takes the directory offline."""
        if self.failure is None:
            self.failure = LogDirFailed(f"log directory {self.path} is offline: {reason}")
            log.error("log directory is offline", extra={"dir": self.path, "reason": reason})
            self._on_failure()
        return self.failure
