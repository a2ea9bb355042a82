"""A side of the comparison: a warm Spark session in its own process and environment."""

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import process

SESSION = Path(__file__).parent / "session.py"
START_TIMEOUT_S = 180.0
ANSWER_TIMEOUT_S = 300.0
LOG_TAIL_CHARACTERS = 3000


class SideError(Exception):
    """A session did not start, ended, or failed an action."""


class Side:
    """A session in its own process, started on first use."""

    def __init__(self, name: str, home: Path, command: Sequence[str]) -> None:
        self.name = name
        self.spark = ""
        self._home = home
        self._log = home / f"{name}.log"
        self._command = [*command[:1], str(SESSION), *command[1:]]
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        return self._started().pid

    def ask(self, action: str, **request: object) -> dict[str, float]:
        """The action's figures, with the session's CPU time as `cpu_s`."""
        running = self._started()
        assert running.stdin is not None
        before = process.cpu_seconds(running.pid)
        running.stdin.write(json.dumps({"do": action, **request}) + "\n")
        running.stdin.flush()
        answer = self._answer(running, ANSWER_TIMEOUT_S)
        if "error" in answer:
            raise SideError(f"{self.name} {action}: {answer['error']}\n{self._tail()}")
        figures = {name: float(str(value)) for name, value in answer.items()}
        return figures | {"cpu_s": process.cpu_seconds(running.pid) - before}

    def close(self) -> None:
        if self._process is not None:
            with self._process as ending:
                assert ending.stdin is not None
                ending.stdin.close()  # the session ends, with its JVM and workers
                try:
                    ending.wait(START_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    ending.kill()
            self._process = None

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None:
            self._home.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    cwd=self._home,
                )
            self.spark = str(self._answer(self._process, START_TIMEOUT_S)["ready"])
        return self._process

    def _answer(self, running: "subprocess.Popen[str]", limit_s: float) -> Mapping[str, object]:
        assert running.stdout is not None
        alarm = threading.Timer(limit_s, running.kill)
        alarm.start()
        try:
            line = running.stdout.readline()
        finally:
            alarm.cancel()
        if not line:
            raise SideError(f"{self.name}'s session ended or hung\n{self._tail()}")
        answer: Mapping[str, object] = json.loads(line)
        return answer

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]
