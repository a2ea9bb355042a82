"""Where the sockets between Spark's Java and its Python processes lie, and who clears them away.

Spark puts them into the directory for temporary files and deletes them when its Java ends. One that
is killed leaves them there for good. Here each process has a directory of its own, with a file that
it keeps locked: the kernel gives the lock back however the process ends, in whatever container. The
next one that opens a session removes the directories that nobody holds.
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
LONGEST_HOME_BYTES: Final = 60
"""The kernel takes 103 bytes for the path of a socket, and Spark's names have 42 with the slash."""


def has_unix_sockets() -> bool:
    return hasattr(socket, "AF_UNIX")


@cache
def socket_home() -> Path | None:
    """This process's directory, made at the first call; None where Spark's own place must do."""
    return made_home(Path(tempfile.gettempdir()))


def made_home(parent: Path) -> Path | None:
    """A locked directory in `parent`, after those were removed that no process holds."""
    if not has_unix_sockets():
        return None
    clear(parent)
    try:
        # The lock comes before the name that others look for.
        fresh = Path(tempfile.mkdtemp(prefix=NEW, dir=parent))
        home = fresh.with_name(PREFIX + fresh.name.removeprefix(NEW))
        if len(os.fsencode(home)) > LONGEST_HOME_BYTES or _locked(fresh / LOCK) is None:
            shutil.rmtree(fresh)
            return None
        fresh.rename(home)
    except OSError:
        return None
    atexit.register(_leave, home, os.getpid())
    return home


def clear(parent: Path) -> None:
    """Removes the directories of processes that are gone."""
    for home in parent.glob(f"{PREFIX}*"):
        if not (home / LOCK).is_file():
            continue
        held = _locked(home / LOCK)
        if held is not None:
            shutil.rmtree(home, ignore_errors=True)
            os.close(held)


def _locked(file: Path) -> int | None:
    """The open file, if no other process has locked it; it stays locked until it is closed."""
    import fcntl  # where there are Unix sockets

    try:
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:  # somebody else's
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened


def _leave(home: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a child that was forked from it
        shutil.rmtree(home, ignore_errors=True)
