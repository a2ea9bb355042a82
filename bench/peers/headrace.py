"""Headrace from this checkout, with its defaults."""

import sys
from pathlib import Path

from bench.load_generator import LoadGenerator
from bench.peers.kafka import DELETE_DELAY_MS
from bench.peers.peer import Peer
from bench.security import Security

# The command beside the interpreter that runs the benchmark: the checkout's own .venv.
PROGRAM = Path(sys.executable).parent / "headrace"


class Headrace(Peer):
    name = "headrace"

    def __init__(
        self,
        home: Path,
        load: LoadGenerator,
        security: Security | None = None,
        *,
        ephemeral: bool = False,
    ) -> None:
        super().__init__(home, load, security)
        self.ephemeral = ephemeral

    def command(self) -> list[str]:
        place = ["--ephemeral"] if self.ephemeral else ["--data", str(self.data)]
        settings = {"log.segment.delete.delay.ms": str(DELETE_DELAY_MS)} | self.settings
        if self.security is not None:
            settings |= self.security.broker_settings | {"listeners": self.listeners}
        given = [word for name in settings for word in ("--set", f"{name}={settings[name]}")]
        port = ["--port", str(self.port)] if self.security is None else []
        return [str(PROGRAM), "up", *port, *place, *given]
