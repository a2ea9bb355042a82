"""Apache Kafka as one KRaft node, with the settings of its own distribution.

The JVM gets the options of Kafka's start script (G1, its pause target, 1 GB of heap). Logging is
limited to warnings, in Kafka's favour.
"""

import base64
import subprocess
import uuid
from pathlib import Path

from bench.load_generator import LoadGenerator
from bench.peers.peer import LOOPBACK, Peer, PeerError, free_port
from bench.security import Security

HEAP = "1g"
FORMAT_TIMEOUT_S = 120
# Deleted topics leave the disk soon, so that runs do not accumulate; both peers get the same.
DELETE_DELAY_MS = 1000

JVM = [
    f"-Xmx{HEAP}",
    f"-Xms{HEAP}",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
]


class Kafka(Peer):
    name = "kafka"

    def __init__(
        self, home: Path, load: LoadGenerator, jars: Path, security: Security | None = None
    ) -> None:
        super().__init__(home, load, security)
        self.controller_port = free_port()
        self.jars = jars
        self.properties = home / "server.properties"

    def prepare(self) -> None:
        self.properties.write_text(self._properties())
        # The "A" keeps Kafka's tool from reading an id that begins with "-" as an option.
        cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        done = subprocess.run(
            self._java(
                *("kafka.tools.StorageTool", "format"),
                *("-t", cluster_id, "-c", str(self.properties)),
            ),
            capture_output=True,
            text=True,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise PeerError(f"formatting Kafka's storage failed:\n{done.stdout}{done.stderr}")

    def command(self) -> list[str]:
        return self._java("kafka.Kafka", str(self.properties))

    def _java(self, *arguments: str) -> list[str]:
        return ["java", *JVM, "-cp", f"{self.jars}/*", *arguments]

    def _properties(self) -> str:
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{self.listeners},CONTROLLER://{LOOPBACK}:{self.controller_port}",
            "log.dirs": str(self.data),
            "num.network.threads": "3",
            "num.io.threads": "8",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "log.segment.delete.delay.ms": str(DELETE_DELAY_MS),
        }
        if self.security is not None:
            lines |= self.security.broker_settings
            lines["listener.security.protocol.map"] = (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL"
            )
        lines |= self.settings
        return "".join(f"{name}={value}\n" for name, value in lines.items())
