"""A simulated cluster: brokers, a ZooKeeper, and faults for both.

Every broker is the real one, with the real ZooKeeper store over a simulated client. A broker that
is cut off from ZooKeeper, or whose process is paused, keeps its session for at most the session
timeout, as with a real ensemble.
"""

from collections.abc import Mapping
from random import Random
from typing import Final

from headrace.clock import Clock
from headrace.cluster.metadata_store import ClusterStore
from headrace.cluster.settings import BrokerSettings
from headrace.cluster.stores.zookeeper_store import ZooKeeperStore
from headrace.cluster.topology import Partition
from headrace.testing.simulated_zookeeper import SimulatedZooKeeper
from headrace.testing.simulation.brokers import BrokerProcess, idle
from headrace.testing.simulation.process import Incarnation
from headrace.testing.simulation.simulation import Simulation

ZOOKEEPER: Final = "zookeeper"
SESSION_S: Final = 3.0
MEAN_ZOOKEEPER_DELAY_S: Final = 0.5e-3

SETTINGS: Final = {
    "zookeeper.connect": f"{ZOOKEEPER}:2181",
    "zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)),
    "replica.lag.time.max.ms": "4000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.delivery.count.limit": "10",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "5000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "8000",
    "group.share.initialize.retry.interval.ms": "2000",
    "log.cleaner.backoff.ms": "3000",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
    "leader.imbalance.check.interval.seconds": "20",
}


class SimulatedCluster:
    """`brokers` by id, starting with 1; not started yet."""

    def __init__(
        self, simulation: Simulation, brokers: int, settings: Mapping[str, str] | None = None
    ) -> None:
        self.simulation = simulation
        self._chance: Random = simulation.schedule.random_of("zookeeper")
        server = simulation.process(ZOOKEEPER, idle).start()
        self.zookeeper = SimulatedZooKeeper(delay=self._delay_s, loop=server.loop)
        self.brokers: dict[int, BrokerProcess] = {}
        for broker_id in range(1, brokers + 1):
            broker = BrokerProcess(simulation, broker_id, SETTINGS | dict(settings or {}))
            broker.process.on_start = lambda incarnation, broker=broker: self._prepare(
                broker, incarnation
            )
            broker.process.on_end = lambda _incarnation, broker=broker: self._ended(broker)
            self.brokers[broker_id] = broker

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""
        return ",".join(broker.address for broker in self.brokers.values())

    def start(self) -> None:
        """Starts all brokers."""
        for broker in self.brokers.values():
            if not broker.process.running:
                broker.process.start()

    # --- state ----------------------------------------------------------------------------------

    def partitions(self) -> dict[tuple[str, int], Partition]:
        """The partitions in the newest metadata that any broker has."""
        images = [
            broker.node.metadata.image
            for broker in self.brokers.values()
            if broker.node is not None
        ]
        if not images:
            return {}
        newest = max(images, key=lambda image: (image.controller_epoch, image.version))
        return {
            (topic.name, index): partition
            for topic in newest.topics.values()
            for index, partition in enumerate(topic.partitions)
        }

    def is_known(self) -> bool:
        """Whether every broker runs and has all others in its metadata."""
        nodes = [broker.node for broker in self.brokers.values()]
        count = len(nodes)
        return all(
            node is not None and len(list(node.metadata.image.live_brokers())) == count
            for node in nodes
        )

    def is_whole(self) -> bool:
        """Whether all brokers run and all replicas are in sync."""
        partitions = self.partitions()
        return (
            bool(partitions)
            and all(broker.node is not None for broker in self.brokers.values())
            and all(
                set(partition.isr) == set(partition.replicas) and partition.leader in partition.isr
                for partition in partitions.values()
            )
        )

    def in_sync_everywhere(self, broker_id: int) -> bool:
        """Whether the broker is in the ISR of each of its partitions."""
        return all(
            broker_id in partition.isr
            for partition in self.partitions().values()
            if broker_id in partition.replicas
        )

    # --- faults ---------------------------------------------------------------------------------

    def pause(self, broker_id: int) -> None:
        """Suspends a broker as SIGSTOP does."""
        self.brokers[broker_id].process.pause()
        self.links_changed()

    def resume(self, broker_id: int) -> None:
        """Continues a paused broker."""
        self.brokers[broker_id].process.resume()
        self.links_changed()

    def isolate(self, broker_id: int, *, zookeeper: bool) -> None:
        """Cuts a broker off from all other hosts; from ZooKeeper only if `zookeeper` is True."""
        for other in self._others(broker_id, zookeeper=zookeeper):
            self._cut(broker_id, other, both=True)

    def cut(self, broker_id: int, other: str, *, both: bool = True) -> None:
        """Disconnects a broker from one host; without `both`, only in the direction to it."""
        self._cut(broker_id, other, both=both)

    def heal(self) -> None:
        """Restores all links between hosts; paused processes stay paused."""
        self.simulation.network.heal_all()
        self.links_changed()

    def expire(self, broker_id: int) -> None:
        """Expires the broker's ZooKeeper session."""
        name = self.brokers[broker_id].host
        if name in self.zookeeper.clients:
            self.zookeeper.expire(name)

    def links_changed(self) -> None:
        """Updates the ZooKeeper sessions after a change of links or processes."""
        network = self.simulation.network
        for broker in self.brokers.values():
            if broker.host not in self.zookeeper.clients:
                continue
            cut = network.is_cut(broker.host, ZOOKEEPER) or network.is_cut(ZOOKEEPER, broker.host)
            if broker.process.paused:
                self.zookeeper.pause(broker.host)
            elif cut:
                self.zookeeper.cut_off(broker.host)
            else:
                self.zookeeper.heal(broker.host)

    def _others(self, broker_id: int, *, zookeeper: bool) -> list[str]:
        others = [name for name in self.simulation.hosts if name != ZOOKEEPER or zookeeper]
        others.remove(self.brokers[broker_id].host)
        return others

    def _cut(self, broker_id: int, other: str, *, both: bool) -> None:
        host = self.brokers[broker_id].host
        self.simulation.network.cut(host, other)
        if both:
            self.simulation.network.cut(other, host)
        self.links_changed()

    # --- start and end of processes -------------------------------------------------------------

    def _prepare(self, broker: BrokerProcess, incarnation: Incarnation) -> None:
        incarnation.world = incarnation.world._replace(
            cluster_store=lambda settings, clock: self._store(broker, settings, clock)
        )

    def _store(
        self, broker: BrokerProcess, _settings: BrokerSettings, clock: Clock
    ) -> ClusterStore:
        client = self.zookeeper.client(broker.host, session_timeout_s=SESSION_S)
        self.links_changed()
        return ZooKeeperStore(client, clock)

    def _ended(self, broker: BrokerProcess) -> None:
        if broker.host in self.zookeeper.clients:
            self.zookeeper.crash(broker.host)

    def _delay_s(self) -> float:
        return self._chance.expovariate(1 / MEAN_ZOOKEEPER_DELAY_S)
