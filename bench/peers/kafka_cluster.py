"""Apache Kafka as a cluster of three: with ZooKeeper (3.9) and with KRaft (4.3).

Settings are those of Kafka's distribution except for replication, which is the same in every
cluster. Each KRaft node is broker and controller, so both kinds of cluster have three broker
processes.
"""

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.load_generator import LoadGenerator
from bench.peers import zookeeper
from bench.peers.cluster import REPLICATED, SESSION_MS, START_TIMEOUT_S, Cluster
from bench.peers.kafka import FORMAT_TIMEOUT_S, JVM
from bench.peers.node import Node
from bench.peers.peer import LOOPBACK, PeerError, free_port
from bench.wire import Wire
from headrace.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)

METADATA_TOPIC = "__cluster_metadata"


class KafkaCluster(Cluster):
    """The common part of both kinds: the jars and a properties file for each broker."""

    def __init__(
        self, home: Path, load: LoadGenerator, jars: Path, *, hosts: Sequence[str] = ()
    ) -> None:
        super().__init__(home, load, hosts=hosts)
        self.jars = jars

    def command(self, broker: Node) -> list[str]:
        return self._java("kafka.Kafka", str(self._properties_of(broker)))

    def prepare(self) -> None:
        for broker in self.brokers:
            lines = {**self.properties(broker), **REPLICATED, **self.settings}
            text = "".join(f"{name}={value}\n" for name, value in lines.items())
            self._properties_of(broker).write_text(text)

    def properties(self, broker: Node) -> Mapping[str, str]:
        return {
            "log.dirs": str(broker.data),
            "num.network.threads": "3",
            "num.io.threads": "8",
            "group.initial.rebalance.delay.ms": "0",
        }

    def _properties_of(self, broker: Node) -> Path:
        return broker.home / "server.properties"

    def _java(self, *arguments: str) -> list[str]:
        return ["java", *JVM, "-cp", f"{self.jars}/*", *arguments]


class KafkaWithZooKeeper(KafkaCluster):
    name = "kafka-zk"

    def __init__(
        self,
        home: Path,
        load: LoadGenerator,
        jars: Path,
        *,
        hosts: Sequence[str] = (),
        zookeeper_hosts: Sequence[str] = (LOOPBACK,),
    ) -> None:
        super().__init__(home, load, jars, hosts=hosts)
        self.zookeepers = zookeeper.ensemble(home, zookeeper_hosts)

    def await_zookeeper(self) -> None:
        self.wait(
            lambda: all(zookeeper.mode(node) for node in self.zookeepers),
            "ZooKeeper serves",
            START_TIMEOUT_S,
        )

    def properties(self, broker: Node) -> Mapping[str, str]:
        return {
            **super().properties(broker),
            "broker.id": str(broker.number),
            "listeners": f"PLAINTEXT://{broker.address}",
            "zookeeper.connect": zookeeper.connect(self.zookeepers),
            "zookeeper.session.timeout.ms": str(SESSION_MS),
        }


class KafkaWithKRaft(KafkaCluster):
    name = "kafka"

    def __init__(
        self, home: Path, load: LoadGenerator, jars: Path, *, hosts: Sequence[str] = ()
    ) -> None:
        super().__init__(home, load, jars, hosts=hosts)
        self._controller_ports = {broker.number: free_port() for broker in self.brokers}

    def properties(self, broker: Node) -> Mapping[str, str]:
        voters = ",".join(
            f"{each.number}@{each.host}:{self._controller_ports[each.number]}"
            for each in self.brokers
        )
        controller = f"{broker.host}:{self._controller_ports[broker.number]}"
        return {
            **super().properties(broker),
            "process.roles": "broker,controller",
            "node.id": str(broker.number),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{broker.address},CONTROLLER://{controller}",
            "share.coordinator.state.topic.replication.factor": "3",
            "share.coordinator.state.topic.min.isr": "2",
        }

    def prepare(self) -> None:
        super().prepare()
        # The "A" keeps Kafka's tool from reading an id that begins with "-" as an option.
        cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        for broker in self.brokers:
            done = subprocess.run(
                self._java(
                    *("kafka.tools.StorageTool", "format"),
                    *("-t", cluster_id, "-c", str(self._properties_of(broker))),
                ),
                capture_output=True,
                text=True,
                timeout=FORMAT_TIMEOUT_S,
                check=False,
            )
            if done.returncode:
                raise PeerError(f"formatting Kafka's storage failed:\n{done.stdout}{done.stderr}")

    def controller(self) -> Node:
        """The quorum's leader: Metadata names any broker, because all of them forward."""
        asked = next(node for node in self.brokers if node.running and not node.paused)
        partition = DescribeQuorumRequestPartitionData(partition_index=0)
        topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        with Wire(asked.address) as wire:
            answer = wire.call(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse, 0)
        return self.broker(answer.topics[0].partitions[0].leader_id)
