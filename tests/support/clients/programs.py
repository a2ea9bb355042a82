"""The programs of tests/conformance: clients in Go, JavaScript and Java, built once for a run."""

import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from support.clients.java import QUIET, TOOL_JVM
from support.waiting import wait_for

SOURCES: Final = Path(__file__).parents[2] / "conformance"
BUILD_TIMEOUT_S: Final = 600
RUN_TIMEOUT_S: Final = 300
STREAMS_DEADLINE_S: Final = 180.0


def run_program(command: list[str], where: Path, timeout_s: float = RUN_TIMEOUT_S) -> str:
    """The output of a program that ends with status 0."""
    done = subprocess.run(
        command, cwd=where, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_franz_go(place: Path) -> list[str]:
    """The command of the program that uses franz-go."""
    program = str(place / "client")
    run_program(["go", "build", "-o", program, "."], SOURCES / "go", BUILD_TIMEOUT_S)
    return [program]


def build_kafkajs(place: Path) -> list[str]:
    """The command of the program that uses kafkajs."""
    build = place / "node"
    shutil.copytree(SOURCES / "node", build, ignore=shutil.ignore_patterns("node_modules"))
    install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
    run_program(install, build, BUILD_TIMEOUT_S)
    return ["node", str(build / "client.js")]


def build_streams(place: Path) -> Path:
    """The compiled application of Kafka Streams with its libraries."""
    build = place / "streams"
    shutil.copytree(SOURCES / "streams", build)
    goals = ["compile", "dependency:copy-dependencies", "-DoutputDirectory=target/lib"]
    run_program(["mvn", "--batch-mode", "--quiet", *goals], build, BUILD_TIMEOUT_S)
    return build / "target"


class StreamsInstance:
    """One process of the application of Kafka Streams."""

    def __init__(
        self, classes: Path, home: Path, arguments: list[str], jvm: Sequence[str] = ()
    ) -> None:
        home.mkdir()
        self.out = home / "out.txt"
        path = f"{classes / 'classes'}:{classes / 'lib'}/*"
        with self.out.open("wb") as out:
            self._process = subprocess.Popen(
                ["java", *TOOL_JVM, QUIET, *jvm, "-cp", path, "headrace.WordCount", *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def wait_until_it_runs(self) -> None:
        wait_for(self._runs, "the instance runs", deadline_s=STREAMS_DEADLINE_S)

    def _runs(self) -> bool:
        assert self._process.poll() is None, self.out.read_text()
        return "running" in self.out.read_text()

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process.poll() is None:
            self._process.send_signal(how)
        self._process.wait()
