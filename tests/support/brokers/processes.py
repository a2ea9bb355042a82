"""Headrace in its own process, for tests that measure, kill or restart it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from headrace.protocol.messages.api_versions import ApiVersionsRequest
from support.waiting import wait_for
from support.wire.connection import ConnectionEnded, Wire

LOOPBACK = "127.0.0.1"
START_DEADLINE_S = 30.0
STOP_DEADLINE_S = 30.0
LOG_TAIL_CHARACTERS = 4000
BYTES_PER_KB = 1024


class BrokerProcess:
    """`headrace up` on a loopback port that stays the same after restarts."""

    def __init__(
        self,
        home: Path,
        *,
        settings: Mapping[str, object] | None = None,
        ephemeral: bool = False,
        before: Sequence[str] = (),
        data: Path | None = None,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.data = data or home / "data"
        self.log = home / "broker.log"
        self.port = free_port()
        self._settings = dict(settings or {})
        self._ephemeral = ephemeral
        self._before = list(before)
        self.code: Path | None = None
        """A directory with the package of another version, for the next start."""
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def bootstrap_servers(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        place = ["--ephemeral"] if self._ephemeral else ["--data", str(self.data)]
        options = [f"--set={name}={value}" for name, value in self._settings.items()]
        up = [sys.executable, "-m", "headrace", "up", "--port", str(self.port)]
        return [*self._before, *up, *place, *options]

    def start(self) -> None:
        """Starts the process; returns when it answers a request."""
        self.launch()
        self.wait_until_serving()

    def launch(self) -> None:
        """Starts the process without waiting for it."""
        environment = None if self.code is None else {**os.environ, "PYTHONPATH": str(self.code)}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def wait_until_serving(self) -> None:
        wait_for(self._answers, "the broker answers", deadline_s=START_DEADLINE_S)

    def stop(self) -> int:
        """Stops it cleanly; returns the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Waits until it has ended; returns the exit status."""
        return self._reap(STOP_DEADLINE_S)

    def kill(self) -> None:
        """Sends kill -9, if it still runs."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
        self._reap(STOP_DEADLINE_S)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def rss_bytes(self) -> int:
        """The resident memory in the kernel's count."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * BYTES_PER_KB
        raise AssertionError("the broker is gone")

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def mark_log(self) -> None:
        """`lines_since_mark` has what is logged from now on."""
        self._mark = self.log.stat().st_size

    def lines_since_mark(self, *parts: str) -> list[str]:
        """The lines without their time that contain all of these parts."""
        with self.log.open("rb") as log:
            log.seek(self._mark)
            lines = log.read().decode(errors="replace").splitlines()
        return [line.partition(" ")[2] for line in lines if all(part in line for part in parts)]

    def _reap(self, deadline_s: float) -> int:
        assert self._process is not None
        status = self._process.wait(deadline_s)
        self._process = None
        return status

    def _answers(self) -> bool:
        if not self.running:
            tail = self.log_text()[-LOG_TAIL_CHARACTERS:]
            raise AssertionError(f"the broker ended at its start:\n{tail}")
        return answers(self.bootstrap_servers)


def answers(bootstrap: str) -> bool:
    """Whether a broker at this address answers ApiVersions now."""
    try:
        with Wire(bootstrap) as wire:
            wire.ask(ApiVersionsRequest(), 0)
    except (OSError, ConnectionEnded):
        return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def is_root() -> bool:
    return os.geteuid() == 0


class Spawn(Protocol):
    """Starts a broker process that ends with the test."""

    def __call__(
        self, settings: Mapping[str, object] | None = None, *, ephemeral: bool = True
    ) -> BrokerProcess: ...
