"""A cluster of three brokers of any kind, and the queries that it answers.

Every broker of a started cluster shows all of its brokers. Data remains after a stop and is removed
by `discard`. Processes listen on the loopback unless the caller names other hosts.
"""

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import process
from bench.load_generator import LoadGenerator
from bench.peers.node import Node
from bench.peers.peer import LOOPBACK, PeerError, free_port
from bench.wire import Wire
from headrace.protocol.errors import ProtocolError
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)

BROKERS = 3
START_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 180.0
POLL_S = 0.05
METADATA_VERSION = 9
ASK_TIMEOUT_S = 15.0

# The settings of every replicated cluster.
REPLICATED: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "log.segment.delete.delay.ms": "1000",
}
SESSION_MS = 6000


class Cluster(ABC):
    name: str

    def __init__(self, home: Path, load: LoadGenerator, *, hosts: Sequence[str] = ()) -> None:
        home.mkdir(parents=True)
        self.home = home
        self.load = load
        # In addition to the settings of every cluster of its kind; a workload fills it before the
        # start.
        self.settings: dict[str, str] = {}
        self.brokers = [
            Node(
                number,
                home / f"broker-{number}",
                host=hosts[number - 1] if hosts else LOOPBACK,
                port=free_port(),
                command=self.command,
            )
            for number in range(1, BROKERS + 1)
        ]
        self.zookeepers: list[Node] = []
        self._prepared = False

    @abstractmethod
    def command(self, broker: Node) -> list[str]:
        """The command line of one broker."""

    def prepare(self) -> None:  # noqa: B027 - most clusters need nothing
        """Called once, before the first start."""

    def await_zookeeper(self) -> None:  # noqa: B027 - there may be none
        """Returns when ZooKeeper serves."""

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    @property
    def nodes(self) -> list[Node]:
        return [*self.zookeepers, *self.brokers]

    @property
    def running(self) -> bool:
        return all(broker.running for broker in self.brokers)

    def start(self) -> None:
        self.launch()
        self.await_brokers()

    def launch(self) -> None:
        """Starts processes that do not run; does not wait for the brokers."""
        if not self._prepared:
            self.prepare()
            self._prepared = True
        for node in self.zookeepers:
            if not node.running:
                node.launch()
        self.await_zookeeper()
        for broker in self.brokers:
            if not broker.running:
                broker.launch()

    def stop(self) -> None:
        """Stops only the brokers, one after the other, as in a rolling stop."""
        for broker in self.brokers:
            broker.stop()

    def discard(self) -> None:
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    # -- queries -----------------------------------------------------------------------------

    def view(self, broker: Node | None = None, *topics: str) -> MetadataResponse:
        """The cluster as one running broker shows it; all topics unless some are named."""
        asked = broker or next(node for node in self.brokers if node.running and not node.paused)
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics] or None,
            allow_auto_topic_creation=False,
        )
        with Wire(asked.address, timeout_s=ASK_TIMEOUT_S) as wire:
            return wire.call(request, MetadataResponse, METADATA_VERSION)

    def partition(self, topic: str, index: int = 0) -> MetadataResponsePartition:
        (found,) = self.view(None, topic).topics
        return next(each for each in found.partitions if each.partition_index == index)

    def controller(self) -> Node:
        """The broker that is the controller now."""
        return self.broker(self.view().controller_id)

    def broker(self, number: int) -> Node:
        return next(broker for broker in self.brokers if broker.number == number)

    # -- waiting -----------------------------------------------------------------------------

    def await_brokers(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Waits until every broker shows all of them."""

        def all_known() -> bool:
            return all(len(self.view(broker).brokers) == BROKERS for broker in self.brokers)

        self.wait(all_known, "all brokers are known to each other", timeout_s)

    def await_in_sync(self, timeout_s: float = SETTLE_TIMEOUT_S) -> float:
        """Waits until every broker shows all replicas in sync; returns the seconds."""
        began = time.monotonic()
        self.wait(
            lambda: all(in_sync(self.view(broker)) for broker in self.brokers),
            "all replicas are in sync",
            timeout_s,
        )
        return time.monotonic() - began

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Waits for a condition; a broker that does not answer counts as not met yet."""
        deadline = time.monotonic() + timeout_s
        while True:
            for broker in self.brokers:
                if broker.started_ns and not broker.running and not broker.ended_by_us:
                    raise PeerError(f"{self.name}: {broker} has died\n{broker.log_tail()}")
            try:
                if condition():
                    return
            except (OSError, ProtocolError, ValueError, StopIteration):
                pass
            if time.monotonic() > deadline:
                tails = "\n".join(f"--- {node}\n{node.log_tail()}" for node in self.brokers)
                raise PeerError(f"{self.name}: not within {timeout_s:g} s: {what}\n{tails}")
            time.sleep(POLL_S)

    # -- costs -------------------------------------------------------------------------------

    def cpu_seconds(self) -> float:
        """CPU seconds of the brokers, without ZooKeeper."""
        return sum(broker.cpu_seconds() for broker in self.brokers if broker.running)

    def memory(self) -> process.Memory:
        """Memory of the broker that uses most."""
        return max(
            (broker.memory() for broker in self.brokers), key=lambda memory: memory.rss_bytes
        )

    def holds(self, topic: str) -> bool:
        """Whether a broker still has files of the topic."""
        return any(True for broker in self.brokers for _ in broker.data.glob(f"{topic}-*"))


def in_sync(view: MetadataResponse) -> bool:
    return len(view.brokers) == BROKERS and all(
        not partition.error_code and len(partition.isr_nodes) == len(partition.replica_nodes)
        for topic in view.topics
        for partition in topic.partitions
    )
