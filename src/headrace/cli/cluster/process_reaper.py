"""Stops the child processes of a command if the command itself is killed.

`python -m headrace.cli.cluster.process_reaper` is a separate process. It reads lines from stdin:
`first PID` and `last PID` for processes to stop, `gone PID` for one that has ended, `remove PATH`
for a directory to remove at the end. When stdin is closed, the command has ended: the reaper sends
SIGTERM to the `first` processes, waits for them, and then stops the `last` ones. It kills processes
that do not end in time.
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


def main(lines: TextIO) -> None:
    watched: dict[str, dict[int, None]] = {"first": {}, "last": {}}
    paths: list[str] = []
    for line in lines:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word in watched:
            watched[word][int(rest)] = None
        elif word == "gone":
            for of in watched.values():
                of.pop(int(rest), None)
        elif word == "remove":
            paths.append(rest)
    _stop_all(list(watched["first"]), STOP_S)
    _stop_all(list(watched["last"]), LAST_STOP_S)
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def _stop_all(pids: Sequence[int], patience_s: float) -> None:
    _signal_all(pids, signal.SIGTERM)
    _signal_all(pids, signal.SIGCONT)  # a stopped process does not handle SIGTERM
    give_up = time.monotonic() + patience_s
    while (left := [pid for pid in pids if lives(pid)]) and time.monotonic() < give_up:
        time.sleep(PAUSE_S)
    _signal_all(left, signal.SIGKILL)


def _signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def lives(pid: int) -> bool:
    """Whether the process exists; a dead process exists until its parent has waited for it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main(sys.stdin)
