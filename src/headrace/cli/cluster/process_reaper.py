"""Sees to it that the processes of a command end when the command itself is killed.

A process of its own, `python -m headrace.cli.cluster.process_reaper`. It reads lines from its
stdin: `first PID`
and `last PID` for processes to end, `gone PID` when one has ended, `remove PATH` for a directory
that shall not outlive them. When stdin ends, so has the command: the `first` are asked to stop, and
when they have (or their time is over) the `last` are; who does not listen is killed.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

STOP_S: Final = 30.0
LAST_STOP_S: Final = 10.0
PAUSE_S: Final = 0.05


class ProcessReaper:
    """The command's end of the pipe."""

    def __init__(self) -> None:
        # A session of its own: neither Ctrl-C nor the end of the terminal is for it.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.cluster.process_reaper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def first(self, pid: int) -> None:
        self._say(f"first {pid}")

    def last(self, pid: int) -> None:
        self._say(f"last {pid}")

    def gone(self, pid: int) -> None:
        self._say(f"gone {pid}")

    def remove(self, path: str) -> None:
        self._say(f"remove {path}")

    def close(self) -> None:
        """Ends it, which ends whoever it still knows."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


def main(lines: TextIO) -> None:
    wards: dict[str, dict[int, None]] = {"first": {}, "last": {}}
    paths: list[str] = []
    for line in lines:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word in wards:
            wards[word][int(rest)] = None
        elif word == "gone":
            for of in wards.values():
                of.pop(int(rest), None)
        elif word == "remove":
            paths.append(rest)
    _end(list(wards["first"]), STOP_S)
    _end(list(wards["last"]), LAST_STOP_S)
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def _end(pids: Sequence[int], patience_s: float) -> None:
    _signal(pids, signal.SIGTERM)
    _signal(pids, signal.SIGCONT)  # a process that stands still hears nothing else
    give_up = time.monotonic() + patience_s
    while (left := [pid for pid in pids if lives(pid)]) and time.monotonic() < give_up:
        time.sleep(PAUSE_S)
    _signal(left, signal.SIGKILL)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def lives(pid: int) -> bool:
    """Whether there is such a process; one that has ended counts until its parent knows."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main(sys.stdin)
