"""Headrace from this checkout as a cluster of three with ZooKeeper."""

from collections.abc import Sequence
from pathlib import Path

from bench.load_generator import LoadGenerator
from bench.peers import zookeeper
from bench.peers.cluster import REPLICATED, SESSION_MS, START_TIMEOUT_S, Cluster
from bench.peers.headrace import PROGRAM
from bench.peers.node import Node
from bench.peers.peer import LOOPBACK


class HeadraceCluster(Cluster):
    name = "headrace"

    def __init__(
        self,
        home: Path,
        load: LoadGenerator,
        *,
        hosts: Sequence[str] = (),
        zookeeper_hosts: Sequence[str] = (LOOPBACK,),
    ) -> None:
        super().__init__(home, load, hosts=hosts)
        self.zookeepers = zookeeper.ensemble(home, zookeeper_hosts)

    def await_zookeeper(self) -> None:
        self.wait(
            lambda: all(zookeeper.mode(node) for node in self.zookeepers),
            "ZooKeeper serves",
            START_TIMEOUT_S,
        )

    def prepare(self) -> None:
        for broker in self.brokers:
            lines = self.settings_of(broker)
            text = "".join(f"{name}={value}\n" for name, value in lines.items())
            (broker.home / "server.properties").write_text(text)

    def settings_of(self, broker: Node) -> dict[str, str]:
        return {
            "broker.id": str(broker.number),
            "listeners": f"PLAINTEXT://{broker.address}",
            "log.dirs": str(broker.data),
            "zookeeper.connect": zookeeper.connect(self.zookeepers),
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "group.initial.rebalance.delay.ms": "0",
            **REPLICATED,
            **self.settings,
        }

    def command(self, broker: Node) -> list[str]:
        config = str(broker.home / "server.properties")
        return [str(PROGRAM), "broker", "start", "--config", config]
