"""The web console beside a broker: a process of its own that ends with the broker.

The console reads its stdin. When the broker ends in any way, the pipe is closed, and the console
stops.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

STOP_TIMEOUT_S: Final = 5.0
STDERR: Final = 2
_OURS: Final = "HEADRACE_"
_SECRETS: Final = frozenset({"sasl.username", "sasl.password"})


class ConsoleProcess:
    """A running console; it prints its address itself."""

    def __init__(
        self,
        servers: str,
        settings: Mapping[str, str] | None = None,
        *,
        listen: str | None = None,
        output: int = STDERR,
    ) -> None:
        """`settings` are those of a client; visitors log in with credentials of their own.

        The file descriptor `output` gets what the console prints and logs.
        """
        given = (settings or {}).items()
        chosen = [f"{name}={value}" for name, value in given if name not in _SECRETS]
        words = [word for setting in chosen for word in ("-X", setting)]
        # A profile or a variable of the user is for other clusters.
        environment = {name: value for name, value in os.environ.items() if name[:9] != _OURS}
        environment["HEADRACE_CONFIG"] = os.devnull
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            [
                *(sys.executable, "-m", "headrace", "console", "--until-stdin-ends"),
                *("-b", servers),
                *words,
                *(("--listen", listen) if listen is not None else ()),
            ],
            stdin=subprocess.PIPE,
            stdout=output,  # not stdout: a caller may read the broker's, or close it
            stderr=output,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches the broker, which stops the console
        )

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
