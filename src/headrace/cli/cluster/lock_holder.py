"""Finds the process that has locked a file, and sends it a signal.

The kernel names the holder of a POSIX record lock, so no file with a pid can be out of date. The
signal goes through a pidfd where the system has them: after the last check that the process holds
the lock, no other process can get the signal, even if the pid is reused.
"""

import fcntl
import os
import signal
import struct
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

# struct flock: Linux has the type first, macOS and the BSDs the offsets.
_LINUX: Final = sys.platform == "linux"
_FLOCK: Final = "hhqqi4x" if _LINUX else "qqihh"


def holder_of(lock: Path) -> int | None:
    """The pid of the process that has locked the file; None if none has, or it does not exist."""
    try:
        with lock.open("rb") as file:
            answer = fcntl.fcntl(file, fcntl.F_GETLK, _question())
    except OSError:
        return None
    if _LINUX:
        kind, _, _, _, pid = struct.unpack(_FLOCK, answer)
    else:
        _, _, pid, kind, _ = struct.unpack(_FLOCK, answer)
    # 0 or -1: the process is in another pid namespace.
    return int(pid) if kind != fcntl.F_UNLCK and pid > 0 else None


def _question() -> bytes:
    """May this process lock the whole file for writing?"""
    if _LINUX:
        return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    return struct.pack(_FLOCK, 0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)


def signal_holder(lock: Path, pid: int, number: signal.Signals) -> bool:
    """Sends the signal to the process if it still holds the lock; whether it was sent."""
    with ExitStack() as opened:
        process = None
        try:
            if hasattr(os, "pidfd_open"):
                process = os.pidfd_open(pid)
                opened.callback(os.close, process)
            if holder_of(lock) != pid:
                return False
            if process is not None:
                signal.pidfd_send_signal(process, number)
            else:
                os.kill(pid, number)
        except ProcessLookupError:
            return False
    return True
