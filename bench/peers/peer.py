"""The operations that a workload may use on any kind of broker, and their common part.

A started peer has answered a Metadata request; a stopped one has exited. Its data directory remains
after a stop, so that a workload can time a restart, and is removed by `discard`.
"""

import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Protocol

from bench import process
from bench.load_generator import LoadError, LoadGenerator
from bench.security import PROTOCOL, Security

LOOPBACK = "127.0.0.1"
START_TIMEOUT_MS = 180_000
STOP_TIMEOUT_S = 180.0
LOG_TAIL_CHARACTERS = 3000


class PeerError(Exception):
    """A broker did not start, died, or did not stop; the message ends with its log."""


class Served(Protocol):
    """One broker or a cluster that serves clients."""

    load: LoadGenerator

    @property
    def bootstrap(self) -> str: ...
    @property
    def running(self) -> bool: ...
    def cpu_seconds(self) -> float: ...
    def memory(self) -> process.Memory: ...
    def holds(self, topic: str) -> bool: ...


class Peer(ABC):
    """A broker process on a free loopback port."""

    name: str

    def __init__(self, home: Path, load: LoadGenerator, security: Security | None = None) -> None:
        self.home = home
        self.data = home / "data"
        self.log = home / "broker.log"
        self.load = load
        self.security = security
        self.port = free_port()
        self.secure_port = 0
        if security is not None:
            self.secure_port = free_port()
            self.load = LoadGenerator(load.program, security.client_settings)
        self.started_ns = 0
        # In addition to the settings of every peer of its kind; a workload fills it before the
        # first start.
        self.settings: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True)

    @property
    def bootstrap(self) -> str:
        """The listener that is measured."""
        return f"{LOOPBACK}:{self.secure_port or self.port}"

    @property
    def listeners(self) -> str:
        plain = f"PLAINTEXT://{LOOPBACK}:{self.port}"
        if self.security is None:
            return plain
        return f"{plain},{PROTOCOL}://{LOOPBACK}:{self.secure_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @abstractmethod
    def command(self) -> list[str]:
        """The command line that starts the broker."""

    def prepare(self) -> None:  # noqa: B027 - most brokers need nothing
        """Called once before the first start, not timed."""

    def launch(self) -> None:
        """Starts the process and returns at once; `started_ns` is the moment before exec."""
        assert not self.running, f"{self.name} is running already"
        if not self.started_ns:
            self.prepare()
        with self.log.open("ab") as log:
            self.started_ns = time.monotonic_ns()
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home
            )

    def await_answer(self, *, led_partitions: int = 0) -> float:
        """Milliseconds from exec to a Metadata response with that many led partitions."""
        try:
            answer = self.load.run(
                "metadata",
                f"{LOOPBACK}:{self.port}",
                timeout_ms=START_TIMEOUT_MS,
                since_ns=self.started_ns,
                led=led_partitions,
            )
        except LoadError as failure:
            raise PeerError(f"{self.name} did not answer: {failure}\n{self.log_tail()}") from None
        if not self.running:
            raise PeerError(f"{self.name} died at start\n{self.log_tail()}")
        if self.security is not None:
            self.security.check(LOOPBACK, self.secure_port)
        return answer["metadata_ms"]

    def start(self) -> float:
        self.launch()
        return self.await_answer()

    def stop(self) -> float:
        """Requests a clean stop and returns the seconds it took."""
        if self._process is None:
            return 0.0
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise PeerError(f"{self.name} ignored SIGTERM\n{self.log_tail()}") from None
        self._process = None
        return time.monotonic() - began

    def discard(self) -> None:
        """Kills the process if it runs, and removes its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self.home, ignore_errors=True)

    def cpu_seconds(self) -> float:
        return process.cpu_seconds(self.pid)

    def memory(self) -> process.Memory:
        return process.memory(self.pid)

    def holds(self, topic: str) -> bool:
        """Whether files of the topic remain."""
        return any(self.data.glob(f"{topic}-*"))

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
