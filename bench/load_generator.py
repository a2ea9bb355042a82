"""Runs the compiled load generator and reads the JSON lines that it prints.

The last line contains the figures. A mode with a set-up first prints a separate line when the timed
part begins.
"""

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# Added to the generator's own limit, which has the better error message.
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
    client_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of librdkafka for every run, such as those of TLS."""

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
        """The figures; the callbacks surround the timed part of a mode that reports its start."""
        given = {"bootstrap": bootstrap, "timeout_ms": DEFAULT_TIMEOUT_MS, **options}
        command = self._command(mode, given)
        limit_s = float(given["timeout_ms"]) / MS_PER_S + GRACE_S
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            hung = threading.Event()
            said = _Said()

            def end() -> None:
                hung.set()
                process.kill()

            alarm = threading.Timer(limit_s, end)
            alarm.start()
            try:
                _listen(process, on_ready, on_done, said)
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

    @contextmanager
    def background(
        self, mode: str, bootstrap: str, **options: Option
    ) -> Iterator["BackgroundLoad"]:
        """A load that ends with the block, unless it was finished before."""
        given = {"bootstrap": bootstrap, "timeout_ms": DEFAULT_TIMEOUT_MS, **options}
        command = self._command(mode, given)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        load = BackgroundLoad(process, " ".join(command[1:]))
        try:
            yield load
        finally:
            load.kill()

    def _command(self, mode: str, given: Mapping[str, Option]) -> list[str]:
        ours = {f"conf.{name}": value for name, value in self.client_settings.items()}
        options = {**given, **ours}
        return [str(self.program), mode, *(f"{name}={value}" for name, value in options.items())]


class BackgroundLoad:
    """A mode that runs until `finish`, while the caller acts on the brokers."""

    def __init__(self, process: subprocess.Popen[str], call: str) -> None:
        self._process = process
        self._call = call
        self._said = _Said()
        self._ready = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        _listen(self._process, self._ready.set, _nothing, self._said)
        self._ready.set()

    def await_ready(self, timeout_s: float) -> None:
        """Waits until the generator reports the start of the timed part."""
        if not self._ready.wait(timeout_s) or self._process.poll() is not None:
            self.kill()
            raise LoadError(f"{self._call}: {self._said.text[-MAX_SAID_CHARACTERS:] or 'no ack'}")

    def count_from_now(self) -> None:
        """Discards the latencies so far, in a mode that measures them."""
        self._process.send_signal(signal.SIGUSR1)

    def finish(self, timeout_s: float) -> Mapping[str, float]:
        """Ends the load, and returns its figures once everything that it sent is answered."""
        self._process.send_signal(signal.SIGINT)
        self._listener.join(timeout_s)
        hung = self._listener.is_alive()
        self.kill()
        if hung or self._said.figures is None:
            said = "hung" if hung else self._said.text[-MAX_SAID_CHARACTERS:]
            raise LoadError(f"{self._call}: {said}")
        return self._said.figures

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.join()


def _nothing() -> None:
    """The default callback: does nothing when the timed part begins."""


@dataclass(slots=True)
class _Said:
    figures: Mapping[str, float] | None = None
    text: str = ""


def _listen(
    process: subprocess.Popen[str],
    on_ready: Callable[[], None],
    on_done: Callable[[], None],
    said: _Said,
) -> None:
    for line in process.stdout or ():
        if not line.startswith("{"):
            said.text += line  # the error in the generator's words
            continue
        figures = json.loads(line)
        if "ready" in figures:
            on_ready()
        else:
            on_done()
            said.figures = {name: float(value) for name, value in figures.items() if name != "mode"}
