"""Apache Kafka's own programs, run with the jars in HEADRACE_KAFKA_LIB."""

import base64
import os
import subprocess
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from support.processes import LOOPBACK, answers, free_port
from support.waiting import wait_for

TIMEOUT_S = 90
START_DEADLINE_S = 90.0
STOP_DEADLINE_S = 60.0

# A tool lives for a second or two: the cheapest JVM is the best one.
TOOL_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
NODE_JVM = ("-Xmx512m", "-XX:+UseSerialGC")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


class ToolFailed(AssertionError):
    """A tool ended with an error; the message has its output."""


def java(*arguments: str, jvm: tuple[str, ...] = TOOL_JVM) -> list[str]:
    """The command line for one of Kafka's classes."""
    jars = os.environ["HEADRACE_KAFKA_LIB"]
    return ["java", *jvm, QUIET, "-cp", f"{jars}/*", *arguments]


def run(*arguments: str, stdin: str | None = None) -> str:
    """What a tool prints; raises if it fails."""
    done = subprocess.run(
        java(*arguments),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise ToolFailed(
            f"{arguments[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


class KafkaNode:
    """Apache Kafka as one KRaft node, for log directories that it wrote itself."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True)
        self.data = home / "data"
        self.port = free_port()
        self._log = home / "kafka.log"
        self._properties = home / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        controller = free_port()
        self._properties.write_text(
            "process.roles=broker,controller\n"
            "node.id=1\n"
            f"controller.quorum.voters=1@{LOOPBACK}:{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            f"listeners=PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{LOOPBACK}:{controller}\n"
            f"log.dirs={self.data}\n"
            "offsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\n"
        )
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        run("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._properties))
        self.start()
        return self

    def start(self) -> None:
        """Returns once it answers; also after a stop."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                java("kafka.Kafka", str(self._properties), jvm=NODE_JVM), stdout=log, stderr=log
            )
        wait_for(
            lambda: answers(self.bootstrap_servers), "Kafka answers", deadline_s=START_DEADLINE_S
        )

    def stop(self) -> None:
        """A clean stop."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_DEADLINE_S)
            self._process = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
