"""A broker in a child process, for a command that needs one while it runs."""

import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, Self

from headrace.child_process import end_process

ADDRESS: Final = re.compile(r"clients connect to +(\S+)")
LAST_LINE: Final = "Ctrl-C stops it."
STOP_S: Final = 60.0


class BrokerEnded(Exception):
    """The broker process has ended; its error is on stderr."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the broker has ended with exit code {code}")
        self.code = code


class ChildBroker:
    """`headrace up` with these options, stopped cleanly at the end of the block."""

    def __init__(self, options: Sequence[str]) -> None:
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self.servers = ""

    def __enter__(self) -> Self:
        # In its own process group: Ctrl-C must reach only the command, which then stops the broker.
        self._process = process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "headrace", "up", *self._options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        try:
            self.servers = self._read_address(process)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def wait(self) -> int:
        """Waits until the broker ends, and returns its exit code."""
        assert self._process is not None
        return self._process.wait()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            end_process(process, STOP_S)
        if process.stdout is not None:
            process.stdout.close()

    def _read_address(self, process: "subprocess.Popen[str]") -> str:
        """The address from the text that the broker prints when it is ready."""
        assert process.stdout is not None
        servers = ""
        for line in process.stdout:
            found = ADDRESS.search(line)
            servers = found[1] if found else servers
            if line.startswith(LAST_LINE):
                return servers
        raise BrokerEnded(process.wait())
