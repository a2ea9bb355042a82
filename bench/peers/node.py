"""One process of a cluster, which can be started, stopped, killed, paused and restarted.

Its data remains after the process ends. `before` is put in front of the command line, and
`environment` is added to the caller's: for example a network namespace or a slow disk.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import process
from bench.peers.peer import LOG_TAIL_CHARACTERS, LOOPBACK, STOP_TIMEOUT_S, PeerError

Command = Callable[["Node"], list[str]]


class Node:
    """`number` is the id of a broker, or the position of a ZooKeeper node in its ensemble."""

    def __init__(
        self, number: int, home: Path, *, port: int, command: Command, host: str = LOOPBACK
    ) -> None:
        self.number = number
        self.home = home
        self.host = host
        self.port = port
        self.data = home / "data"
        self.log = home / "process.log"
        self.before: Sequence[str] = ()
        self.environment: Mapping[str, str] = {}
        self.started_ns = 0
        self.paused = False
        # Whether the caller ended it on purpose.
        self.ended_by_us = False
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)

    def __str__(self) -> str:
        return self.home.name

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self} is not running"
        return self._process.pid

    def launch(self) -> None:
        """Starts the process and returns at once; `started_ns` is the moment before exec."""
        assert not self.running, f"{self} is running already"
        with self.log.open("ab") as log:
            self.started_ns = time.monotonic_ns()
            self._process = subprocess.Popen(
                [*self.before, *self._command(self)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                env=os.environ | self.environment,
            )
        self.paused = False
        self.ended_by_us = False

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def stop(self) -> float:
        """Stops it cleanly; returns the seconds it took."""
        began = time.monotonic()
        self.ended_by_us = True
        self.signal(signal.SIGTERM)
        return self.await_end() - began

    def await_end(self) -> float:
        """Waits for the end of the process; returns its time."""
        if self._process is not None:
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise PeerError(f"{self} ignored SIGTERM\n{self.log_tail()}") from None
            self._process = None
        return time.monotonic()

    def kill(self) -> None:
        """kill -9, if it runs."""
        self.ended_by_us = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.paused = False

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)
        self.paused = self.running

    def resume(self) -> None:
        self.signal(signal.SIGCONT)
        self.paused = False

    def cpu_seconds(self) -> float:
        return process.cpu_seconds(self.pid)

    def memory(self) -> process.Memory:
        return process.memory(self.pid)

    def log_tail(self) -> str:
        if not self.log.exists():
            return ""
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]
