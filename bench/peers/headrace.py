"""Headrace from this checkout, with its defaults."""

import sys
from pathlib import Path

from bench.load_generator import LoadGenerator
from bench.peers.kafka import DELETE_DELAY_MS
from bench.peers.peer import Peer

# The command beside the interpreter that runs the benchmark: the checkout's own .venv.
PROGRAM = Path(sys.executable).parent / "headrace"


class Headrace(Peer):
    name = "headrace"

    def __init__(self, home: Path, load: LoadGenerator, *, ephemeral: bool = False) -> None:
        super().__init__(home, load)
        self.ephemeral = ephemeral

    def command(self) -> list[str]:
        place = ["--ephemeral"] if self.ephemeral else ["--data", str(self.data)]
        settings = {"log.segment.delete.delay.ms": str(DELETE_DELAY_MS)} | self.settings
        given = [word for name in settings for word in ("--set", f"{name}={settings[name]}")]
        return [str(PROGRAM), "up", "--port", str(self.port), *place, *given]
