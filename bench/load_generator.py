"""Calls the compiled load generator and reads the JSON lines it prints.

The last line holds the figures. A mode that sets the stage first says before, in a line of its own,
when the timed part begins.
"""

import json
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

# On top of the generator's own limit, which is the one that explains itself.
GRACE_S = 30.0
DEFAULT_TIMEOUT_MS = 120_000
MS_PER_S = 1000
MAX_SAID_CHARACTERS = 600

Option = str | int


class LoadError(Exception):
    """The load generator met an error: a failed delivery, a timeout, missing messages."""


@dataclass(frozen=True, slots=True)
class LoadGenerator:
    program: Path

    def run(self, mode: str, bootstrap: str, **options: Option) -> Mapping[str, float]:
        """The figures of a mode."""
        return self.watch(mode, bootstrap, options, on_ready=_nothing, on_done=_nothing)

    def watch(
        self,
        mode: str,
        bootstrap: str,
        options: Mapping[str, Option],
        *,
        on_ready: Callable[[], None],
        on_done: Callable[[], None],
    ) -> Mapping[str, float]:
        """The figures; the callbacks surround the timed part of a mode that says when it begins."""
        given = {"bootstrap": bootstrap, "timeout_ms": DEFAULT_TIMEOUT_MS, **options}
        command = [str(self.program), mode, *(f"{name}={value}" for name, value in given.items())]
        limit_s = float(given["timeout_ms"]) / MS_PER_S + GRACE_S
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            hung = threading.Event()

            def end() -> None:
                hung.set()
                process.kill()

            alarm = threading.Timer(limit_s, end)
            alarm.start()
            try:
                said = _listen(process, on_ready, on_done)
                status = process.wait()
            finally:
                alarm.cancel()
                process.kill()
        call = " ".join(command[1:])
        if hung.is_set():
            raise LoadError(f"{call}: hung")
        if status or said.figures is None:
            raise LoadError(f"{call}: {said.text[-MAX_SAID_CHARACTERS:]}")
        return said.figures


def _nothing() -> None:
    """Where nobody asks when the timed part begins."""


@dataclass(slots=True)
class _Said:
    figures: Mapping[str, float] | None = None
    text: str = ""


def _listen(
    process: subprocess.Popen[str], on_ready: Callable[[], None], on_done: Callable[[], None]
) -> _Said:
    said = _Said()
    for line in process.stdout or ():
        if not line.startswith("{"):
            said.text += line  # what went wrong, in the generator's words
            continue
        figures = json.loads(line)
        if "ready" in figures:
            on_ready()
        else:
            on_done()
            said.figures = {name: float(value) for name, value in figures.items() if name != "mode"}
    return said
