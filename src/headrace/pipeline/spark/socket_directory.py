"""A directory for the sockets between Spark's JVM and its Python processes, and its cleanup.

Spark puts the sockets into the directory for temporary files and deletes them when its JVM ends. If
the JVM is killed, they stay there. So each process gets its own directory with a file that it keeps
locked. The kernel releases the lock however the process ends, also in a container. The next process
that opens a session removes the directories without a lock.
"""

import atexit
import os
import shutil
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

PREFIX: Final = "headrace-sockets-"
NEW: Final = ".new-" + PREFIX
LOCK: Final = "lock"
MAX_DIRECTORY_BYTES: Final = 60
"""The kernel allows 103 bytes for the path of a socket. Spark's names take 42, with the slash."""


def has_unix_sockets() -> bool:
    return hasattr(socket, "AF_UNIX")


@cache
def own_socket_directory() -> Path | None:
    """This process's directory, created at the first call; None if it cannot be created."""
    return create_socket_directory(Path(tempfile.gettempdir()))


def create_socket_directory(parent: Path) -> Path | None:
    """Removes the unlocked directories in `parent` and creates a locked one."""
    if not has_unix_sockets():
        return None
    remove_unlocked_directories(parent)
    try:
        # Lock the file before the rename: other processes look for the new name.
        fresh = Path(tempfile.mkdtemp(prefix=NEW, dir=parent))
        directory = fresh.with_name(PREFIX + fresh.name.removeprefix(NEW))
        if len(os.fsencode(directory)) > MAX_DIRECTORY_BYTES or _open_locked(fresh / LOCK) is None:
            shutil.rmtree(fresh)
            return None
        fresh.rename(directory)
    except OSError:
        return None
    atexit.register(_remove_own_directory, directory, os.getpid())
    return directory


def remove_unlocked_directories(parent: Path) -> None:
    """Removes the directories of processes that have ended."""
    for directory in parent.glob(f"{PREFIX}*"):
        if not (directory / LOCK).is_file():
            continue
        held = _open_locked(directory / LOCK)
        if held is not None:
            shutil.rmtree(directory, ignore_errors=True)
            os.close(held)


def _open_locked(file: Path) -> int | None:
    """Opens and locks a file until it is closed; None if another process has locked it."""
    import fcntl  # only on systems with Unix sockets

    try:
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:  # the file of another user
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened


def _remove_own_directory(directory: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(directory, ignore_errors=True)
