"""Calls the compiled load generator and reads the one JSON line it prints."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# On top of the generator's own limit, which is the one that explains itself.
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

    def run(
        self,
        mode: str,
        bootstrap: str,
        **options: Option,
    ) -> Mapping[str, float]:
        given = {"bootstrap": bootstrap, "timeout_ms": DEFAULT_TIMEOUT_MS, **options}
        arguments = [f"{name}={value}" for name, value in given.items()]
        try:
            done = subprocess.run(
                [str(self.program), mode, *arguments],
                capture_output=True,
                text=True,
                timeout=float(given["timeout_ms"]) / MS_PER_S + GRACE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            raise LoadError(f"{mode} {' '.join(arguments)}: hung") from expired
        if done.returncode:
            said = (done.stderr.strip() or done.stdout)[-MAX_SAID_CHARACTERS:]
            raise LoadError(f"{mode} {' '.join(arguments)}: {said}")
        line = json.loads(done.stdout)
        return {name: float(value) for name, value in line.items() if name != "mode"}
