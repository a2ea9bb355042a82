"""A command on its own terminal, like a user sees it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CTRL_C = b"\x03"
READ_BYTES = 65536
LOOK_S = 0.1


class Terminal:
    """Starts the command; `text` is its output so far."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        columns: int = 100,
        lines: int = 30,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        given = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        self._process = subprocess.Popen(
            words,
            stdin=there,
            stdout=there,
            stderr=there,
            env={**given, "TERM": "xterm-256color", **(environment or {})},
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(there)
        self.raw = ""

    @property
    def text(self) -> str:
        """The output without colours and cursor movements."""
        return ESCAPES.sub("", self.raw)

    def wait_for(self, wanted: str, timeout_s: float = 60) -> None:
        """Waits until the output contains the text."""
        deadline = time.monotonic() + timeout_s
        while wanted not in self.text:
            ended = not self._read()
            if wanted in self.text:
                return
            assert not ended, f"it ended without {wanted!r}:\n{self.text[-3000:]}"
            assert time.monotonic() < deadline, f"no {wanted!r} in:\n{self.text[-3000:]}"

    def type(self, keys: bytes) -> None:
        os.write(self._here, keys)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self, timeout_s: float = 60) -> int:
        """Reads all output and returns the exit code."""
        deadline = time.monotonic() + timeout_s
        while self._read():
            assert time.monotonic() < deadline, f"it does not end:\n{self.text[-3000:]}"
        return self._process.wait(timeout_s)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._here)

    def _read(self) -> bool:
        """Reads the available output; False at the end of the output."""
        if not select.select([self._here], [], [], LOOK_S)[0]:
            return True
        try:
            data = os.read(self._here, READ_BYTES)
        except OSError:  # on Linux, this means that the other side of the terminal is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)


def _take_terminal() -> None:
    """In the new process: makes it the target of Ctrl-C on the terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
