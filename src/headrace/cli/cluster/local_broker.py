"""One broker of a local cluster: its directory, settings file, process and log."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.certificate_files import SECRET_MODE, write_file
from headrace.child_process import wait_or_kill

LAST_LINES: Final = 8
TAIL_BYTES: Final = 8192


class LocalBroker:
    """`headrace broker start` in its own directory."""

    def __init__(
        self, broker_id: int, port: int, folder: Path, http_port: int | None = None
    ) -> None:
        self.id = broker_id
        self.port = port
        self.http_port = http_port
        self.folder = folder
        self.config = folder / "server.properties"
        self.log = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def configure(self, settings: Mapping[str, str]) -> None:
        """Writes its server.properties, which `headrace broker start` can use as well.

        It may contain passwords, so only its owner can read it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        write_file(self.config, "".join(lines).encode(), SECRET_MODE)

    def start(self) -> int:
        """Starts the process and returns its pid; the broker is ready a little later."""
        command = [
            sys.executable,
            "-m",
            "headrace",
            "broker",
            "start",
            "--config",
            str(self.config),
        ]
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            # In its own process group: Ctrl-C must reach only the command, which stops the brokers.
            self._process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )
        return self._process.pid

    @property
    def pid(self) -> int | None:
        """The pid of the last process; None before the first start."""
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs, the negative signal number if a signal ended it."""
        return None if self._process is None else self._process.poll()

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ask_to_stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)

    def wait_or_kill(self, patience_s: float) -> None:
        """Waits until the process has ended, and kills it after `patience_s`."""
        if self._process is not None:
            wait_or_kill(self._process, patience_s)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def last_lines(self) -> list[str]:
        """The last lines in the log of the current process."""
        try:
            with self.log.open("rb") as log:
                end = log.seek(0, 2)
                log.seek(max(self._log_start, end - TAIL_BYTES))
                text = log.read().decode("utf-8", "replace")
        except OSError:
            return []
        return text.splitlines()[-LAST_LINES:]


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return "stopped" if code == 0 else f"ended with exit code {code}"
