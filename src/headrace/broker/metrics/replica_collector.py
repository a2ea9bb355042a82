"""The replicas of this broker: Kafka's ReplicaManager."""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from headrace.broker.metrics.samples import counter, gauge
from headrace.broker.partitions.partition_table import PartitionTable
from headrace.metrics.family import MetricFamily, Sample
from headrace.metrics.topic_traffic import BrokerTraffic
from headrace.replication.leader import Leader
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.directories.log_manager import LogManager

PREFIX: Final = "kafka_server_replicamanager_"
REPLICAS_A_SLICE: Final = 500
MAX_LAGGING: Final = 1000
"""Followers out of sync with a series of their own."""


class ReplicaCollectorHost(Protocol):
    """What the collector needs of the broker."""

    partitions: PartitionTable

    @property
    def logs(self) -> LogManager: ...


class _Lagging(NamedTuple):
    topic: str
    partition: int
    replica: int
    records: int


class _Counts:
    """One pass over the partition table."""

    __slots__ = (
        "at_min_isr",
        "lagging",
        "leaders",
        "partitions",
        "reassigning",
        "under_min_isr",
        "under_replicated",
    )

    def __init__(self) -> None:
        self.leaders = 0
        self.partitions = 0
        self.under_replicated = 0
        self.under_min_isr = 0
        self.at_min_isr = 0
        self.reassigning = 0
        self.lagging: list[_Lagging] = []

    def add(self, leader: SoleLeader, min_isr: int) -> None:
        self.leaders += 1
        isr = 1
        if isinstance(leader, Leader):
            partition = leader.partition
            isr = len(partition.isr)
            self.reassigning += bool(partition.adding or partition.removing)
            if isr < len(partition.replicas):
                self.under_replicated += 1
                self._add_lagging(leader)
        self.under_min_isr += isr < min_isr
        self.at_min_isr += isr == min_isr

    def _add_lagging(self, leader: Leader) -> None:
        if not leader.is_open or len(self.lagging) >= MAX_LAGGING:
            return
        end = leader.log.log_end_offset
        for id_, progress in leader.progress.items():
            if id_ not in leader.partition.isr:
                behind = end - max(0, progress.log_end)
                self.lagging.append(_Lagging(leader.topic, leader.index, id_, max(0, behind)))


class ReplicaCollector:
    """Counts leaders, followers and in-sync replicas."""

    def __init__(self, host: ReplicaCollectorHost, traffic: BrokerTraffic) -> None:
        self._host = host
        self._traffic = traffic

    def collect(self) -> Iterator[MetricFamily | None]:
        counts = _Counts()
        since_pause = 0
        for topic in tuple(self._host.partitions.by_name.values()):
            min_isr = topic.config.min_insync_replicas
            for leader in tuple(topic.leaders):
                if leader is not None:
                    counts.add(leader, min_isr)
                    since_pause += 1
                    if since_pause >= REPLICAS_A_SLICE:
                        since_pause = 0
                        yield None
            counts.partitions += len(topic.followers)
        counts.partitions += counts.leaders
        offline = sum(
            len(directory.logs) if not directory.is_online else len(directory.state.damaged)
            for directory in self._host.logs.directories
        )
        yield from _families(counts, offline)
        total = self._traffic.total
        yield counter(
            f"{PREFIX}isrshrinks_total",
            "Times that a replica left the ISR of a partition that this broker leads.",
            total("isr_shrinks"),
        )
        yield counter(
            f"{PREFIX}isrexpands_total",
            "Times that a replica joined the ISR of a partition that this broker leads.",
            total("isr_expands"),
        )
        yield counter(
            f"{PREFIX}failedisrupdates_total",
            "ISR changes that the controller has refused.",
            total("failed_isr_updates"),
        )


def _families(counts: _Counts, offline: int) -> Iterator[MetricFamily]:
    yield gauge(f"{PREFIX}leadercount", "Partitions that this broker leads.", counts.leaders)
    yield gauge(
        f"{PREFIX}partitioncount", "Partitions with a replica on this broker.", counts.partitions
    )
    yield gauge(
        f"{PREFIX}underreplicatedpartitions",
        "Partitions that this broker leads with a replica out of sync.",
        counts.under_replicated,
    )
    yield gauge(
        f"{PREFIX}underminisrpartitioncount",
        "Partitions that this broker leads with fewer in-sync replicas than min.insync.replicas: "
        "acks=all is refused.",
        counts.under_min_isr,
    )
    yield gauge(
        f"{PREFIX}atminisrpartitioncount",
        "Partitions that this broker leads with exactly min.insync.replicas in-sync replicas.",
        counts.at_min_isr,
    )
    yield gauge(
        f"{PREFIX}reassigningpartitions",
        "Partitions that this broker leads with a reassignment in progress.",
        counts.reassigning,
    )
    yield gauge(
        f"{PREFIX}offlinereplicacount",
        "Replicas on this broker in a failed log directory or with a damaged log.",
        offline,
    )
    yield MetricFamily(
        "headrace_replica_lag_records",
        "gauge",
        "Records that a follower out of sync lacks, as its leader knows; at most 1000 followers.",
        ("topic", "partition", "replica"),
        _lag_samples(counts.lagging),
    )


def _lag_samples(lagging: list[_Lagging]) -> Iterator[Sample]:
    for each in lagging:
        yield (each.topic, str(each.partition), str(each.replica)), each.records
