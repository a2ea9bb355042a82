"""`headrace pipeline run` in its own process, for tests that watch, kill or stop it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from support.waiting import wait_for

START_DEADLINE_S = 900.0
STOP_DEADLINE_S = 900.0
TAIL_CHARACTERS = 3000
SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Java compiles less. This halves the CPU time of a mostly idle Spark."""
_START_TIME = 19
"""The index of the field in /proc/PID/stat, counted after the process name."""
KILLED_DRIVER = str(Path(__file__).with_name("killed_driver.py"))


class Driver:
    """One run of a spec. `killed_at` has a point for each flow (see `killed_driver`)."""

    def __init__(
        self,
        spec: Path,
        bootstrap: str,
        home: Path,
        *,
        options: Sequence[str] = (),
        killed_at: Mapping[str, str] | None = None,
    ) -> None:
        home.mkdir(parents=True)
        self._out, self._err = home / "events.jsonl", home / "stderr.txt"
        program = ["-m", "headrace"]
        if killed_at is not None:
            points = ",".join(f"{flow}={point}" for flow, point in killed_at.items())
            program = [KILLED_DRIVER, points]
        command = [sys.executable, *program, "pipeline", "run", str(spec), "-b", bootstrap]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*command, *options], stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    def close(self) -> None:
        """Ends all of its processes, also after a failed test."""
        if self.running:
            self.kill(tree=True)

    @property
    def events(self) -> list[dict[str, Any]]:
        whole = self._out.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def count(self, kind: str) -> int:
        return sum(event["kind"] == kind for event in self.events)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def await_events(self, kind: str, count: int, deadline_s: float = START_DEADLINE_S) -> None:
        """Returns when all flows together have reported `count` events."""

        def there() -> bool:
            assert self.running, f"the driver has ended:\n{self.tail()}"
            return self.count(kind) >= count

        wait_for(there, f"{count} x {kind}\n{self.tail()}", deadline_s=deadline_s)

    def kill(self, *, tree: bool = False) -> None:
        """Sends SIGKILL to the driver alone, or also to Spark's processes."""
        others = descendants(self._process.pid) if tree else []
        self._process.kill()
        self._process.wait(STOP_DEADLINE_S)
        for pid in others:
            _kill(pid)

    def spark_processes(self) -> set["Started"]:
        found = {started(pid) for pid in descendants(self._process.pid)}
        return {each for each in found if each is not None}

    def terminate(self) -> int:
        """Sends SIGTERM; returns the exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self, deadline_s: float = STOP_DEADLINE_S) -> int:
        return self._process.wait(deadline_s)

    def tail(self) -> str:
        lines = [file.read_text(errors="replace") for file in (self._out, self._err)]
        return "\n".join(text[-TAIL_CHARACTERS:] for text in lines)


class Started(NamedTuple):
    """A process with its start time: the kernel may reuse the process id."""

    pid: int
    time: str

    @property
    def is_there(self) -> bool:
        return started(self.pid) == self


def started(pid: int) -> Started | None:
    """The process with this id; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Started(pid, fields[_START_TIME])


def descendants(pid: int) -> list[int]:
    """The running children of a process, and their descendants."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        file = Path(f"/proc/{waiting.pop()}/task")
        try:
            tasks = list(file.iterdir())
            text = " ".join((task / "children").read_text() for task in tasks)
        except OSError:
            continue
        children = [int(each) for each in text.split()]
        found += children
        waiting += children
    return found


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
