"""`headrace cluster up` as a process: the command of a user, and its output lines."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from support.waiting import wait_for

UP_DEADLINE_S = 90.0
STOP_DEADLINE_S = 90.0

Event = dict[str, object]


class ClusterUp:
    """A cluster of real processes that end with the block."""

    def __init__(
        self, folder: Path, *options: str, brokers: int = 3, settings: dict[str, str] | None = None
    ) -> None:
        self.folder = folder
        self._options = [
            *("--brokers", str(brokers), "--port", "0", "--data", str(folder), *options),
            *(f"--set={name}={value}" for name, value in (settings or {}).items()),
        ]
        self.events: list[Event] = []

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", "cluster", "up", *self._options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.wait_for_event(lambda event: event["event"] == "up", "the cluster is up")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> int:
        """Sends Ctrl-C; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self._reader.join(STOP_DEADLINE_S)
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()

    def wait_for_event(self, matches: Callable[[Event], bool], what: str) -> Event:
        def found() -> Event | None:
            return next((event for event in list(self.events) if matches(event)), None)

        def ended_or_found() -> Event | None:
            event = found()
            if event is None and self.process.poll() is not None:
                assert self.process.stderr is not None
                raise AssertionError(f"it ended before {what}: {self.process.stderr.read()}")
            return event

        return wait_for(ended_or_found, what, deadline_s=UP_DEADLINE_S)

    @property
    def state(self) -> dict:
        return json.loads((self.folder / "cluster.json").read_text())

    @property
    def bootstrap_servers(self) -> str:
        return str(self.state["bootstrap_servers"])

    def pid(self, broker: int) -> int:
        found = next(each["pid"] for each in self.state["brokers"] if each["id"] == broker)
        assert isinstance(found, int)
        return found

    def kill(self, broker: int) -> None:
        os.kill(self.pid(broker), signal.SIGKILL)


def children_of(folder: Path) -> list[int]:
    """The processes with this directory on their command line, from /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(str(folder).encode()) for word in words):
            found.append(int(entry.name))
    return found
