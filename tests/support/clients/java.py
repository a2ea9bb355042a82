"""Apache Kafka's own programs, run with the jars in HEADRACE_KAFKA_LIB."""

import base64
import os
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from support.brokers.processes import LOOPBACK, answers, free_port
from support.waiting import wait_for

TIMEOUT_S = 90
START_DEADLINE_S = 90.0
STOP_DEADLINE_S = 60.0

# A tool runs for a second or two, so the JVM with the fastest start is the best one.
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
    """The output of a tool; raises if the tool fails."""
    done = _run_to_end(*arguments, stdin=stdin)
    if done.returncode:
        raise ToolFailed(
            f"{arguments[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def run_and_read_errors(*arguments: str) -> str:
    """What a tool writes to stderr, whether it fails or not."""
    return _run_to_end(*arguments).stderr


def _run_to_end(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        java(*arguments),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


class KafkaNode:
    """Apache Kafka as one KRaft node: alone, or as a member of a cluster."""

    def __init__(
        self, home: Path, *, node_id: int = 1, settings: Mapping[str, object] | None = None
    ) -> None:
        home.mkdir(parents=True)
        self.node_id = node_id
        self.data = home / "data"
        self.port = free_port()
        self.controller_port = free_port()
        self._settings = dict(settings or {})
        self._log = home / "kafka.log"
        self._properties = home / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def voter(self) -> str:
        return f"{self.node_id}@{LOOPBACK}:{self.controller_port}"

    def __enter__(self) -> Self:
        alone = {
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
        }
        self.format(new_cluster_id(), [self], alone)
        self.start()
        return self

    def format(
        self, cluster_id: str, nodes: "Sequence[KafkaNode]", defaults: Mapping[str, object]
    ) -> None:
        """Writes the node's settings and formats its log directory."""
        controller = f"{LOOPBACK}:{self.controller_port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.voters": ",".join(node.voter for node in nodes),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{controller}",
            "log.dirs": self.data,
            **defaults,
            **self._settings,
        }
        self._properties.write_text("".join(f"{name}={of}\n" for name, of in settings.items()))
        # As one argument: an id may begin with a dash.
        named = f"--cluster-id={cluster_id}"
        run("kafka.tools.StorageTool", "format", named, "-c", str(self._properties))

    def start(self) -> None:
        """Starts the node, also after a stop; returns when it answers."""
        self.spawn()
        self.wait()

    def spawn(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                java("kafka.Kafka", str(self._properties), jvm=NODE_JVM), stdout=log, stderr=log
            )

    def wait(self) -> None:
        wait_for(
            lambda: answers(self.bootstrap_servers), "Kafka answers", deadline_s=START_DEADLINE_S
        )

    @property
    def running(self) -> bool:
        return self._process is not None

    def stop(self) -> None:
        """Stops the node cleanly."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_DEADLINE_S)
            self._process = None

    def kill(self) -> None:
        """Sends kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Suspends the process: its connections stay open without answers. `kill` ends this too."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


class KafkaCluster:
    """Several nodes, each broker and controller. The cluster detects a dead node in seconds."""

    SETTINGS: ClassVar[Mapping[str, object]] = {
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 500,
        "default.replication.factor": 3,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
        # Consumers with a rack id fetch from the replica in that rack.
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }

    def __init__(
        self, home: Path, size: int = 3, *, settings: Mapping[str, object] | None = None
    ) -> None:
        self._settings = {**self.SETTINGS, **(settings or {})}
        racks = [{"broker.rack": f"r{node_id}"} for node_id in range(1, size + 1)]
        self.nodes = {
            node_id: KafkaNode(home / str(node_id), node_id=node_id, settings=rack)
            for node_id, rack in enumerate(racks, 1)
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def __enter__(self) -> Self:
        cluster_id = new_cluster_id()
        for node in self.nodes.values():
            node.format(cluster_id, list(self.nodes.values()), self._settings)
        try:
            for node in self.nodes.values():
                node.spawn()
            for node in self.nodes.values():
                node.wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.nodes.values():
            node.kill()


def new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
