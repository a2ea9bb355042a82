"""Stops the child processes of a command if the command itself is killed.

`python -m headrace.cli.cluster.process_reaper` is a separate process. It reads lines from stdin:
`first PID` and `last PID` for processes to stop, `gone PID` for one that has ended, `remove PATH`
for a directory to remove at the end. When stdin is closed, the command has ended: the reaper sends
SIGTERM to the `first` processes, waits for them, and then stops the `last` ones. It kills processes
that do not end in time.

A pid is free again after its process has ended, and the system may give it to any new process. So
the reaper notes the start time of each process, and sends no signal to a pid whose process started
at another time.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TextIO

STOP_S: Final = 30.0
LAST_STOP_S: Final = 10.0
PAUSE_S: Final = 0.05
_START_TIME_FIELD: Final = 19  # of /proc/PID/stat, counted after the name in parentheses


class ProcessReaper:
    """The reaper process, as the command sees it."""

    def __init__(self) -> None:
        # In its own session: neither Ctrl-C nor the end of the terminal reaches it.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.cluster.process_reaper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def first(self, pid: int) -> None:
        self._send_line(f"first {pid}")

    def last(self, pid: int) -> None:
        self._send_line(f"last {pid}")

    def gone(self, pid: int) -> None:
        self._send_line(f"gone {pid}")

    def remove(self, path: str) -> None:
        self._send_line(f"remove {path}")

    def close(self) -> None:
        """Ends the reaper, which first stops all processes that it still watches."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _send_line(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


class ProcessIdentity(NamedTuple):
    """One process; a later process with the same pid has another start time."""

    pid: int
    start_time: str
    """In clock ticks since boot; empty on a system without /proc."""


def identify(pid: int) -> ProcessIdentity:
    """The process that has this pid now."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ProcessIdentity(pid, "")
    return ProcessIdentity(pid, status.rpartition(")")[2].split()[_START_TIME_FIELD])


def lives(process: ProcessIdentity) -> bool:
    """Whether the process exists; a dead process exists until its parent has waited for it."""
    try:
        os.kill(process.pid, 0)
    except (ProcessLookupError, PermissionError):  # a process of another user is another process
        return False
    return identify(process.pid) == process


def main(lines: TextIO) -> None:
    watched: dict[str, dict[int, ProcessIdentity]] = {"first": {}, "last": {}}
    paths: list[str] = []
    for line in lines:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word in watched:
            watched[word][int(rest)] = identify(int(rest))
        elif word == "gone":
            for of in watched.values():
                of.pop(int(rest), None)
        elif word == "remove":
            paths.append(rest)
    stop_all(list(watched["first"].values()), STOP_S)
    stop_all(list(watched["last"].values()), LAST_STOP_S)
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def stop_all(processes: Sequence[ProcessIdentity], patience_s: float) -> None:
    """Sends SIGTERM, and SIGKILL to the processes that still exist after `patience_s`."""
    _signal_all(processes, signal.SIGTERM)
    _signal_all(processes, signal.SIGCONT)  # a stopped process does not handle SIGTERM
    give_up = time.monotonic() + patience_s
    while (left := [each for each in processes if lives(each)]) and time.monotonic() < give_up:
        time.sleep(PAUSE_S)
    _signal_all(left, signal.SIGKILL)


def _signal_all(processes: Iterable[ProcessIdentity], number: signal.Signals) -> None:
    for process in processes:
        if lives(process):
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)


if __name__ == "__main__":
    main(sys.stdin)
