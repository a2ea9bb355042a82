"""Brokers, topics and partitions, with the names and labels of kafka_exporter.

Each series comes from one broker, so sums over all brokers are right: brokers and topics from the
controller, a partition from its leader. The controller reports partitions without a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from headrace.broker.lag.partition_states import bounds_of
from headrace.broker.metadata.standalone_metadata import MetadataView
from headrace.broker.metrics.series_limits import SelectedTopics, SeriesHost
from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import NO_LEADER, Partition
from headrace.metrics.family import MetricFamily, Sample
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.directories.log_manager import LogManager

_PARTITION = ("topic", "partition")


class PartitionCollectorHost(SeriesHost, Protocol):
    """The part of the broker that knows topics."""

    node_id: int

    @property
    def metadata(self) -> MetadataView: ...

    @property
    def logs(self) -> LogManager: ...

    @property
    def is_controller(self) -> bool: ...


class _Reported(NamedTuple):
    """A partition that this broker reports."""

    labels: tuple[str, str]
    partition: Partition


class PartitionCollector:
    """Implements `Collector`."""

    def __init__(self, host: PartitionCollectorHost) -> None:
        self._host = host
        self._selected = SelectedTopics(host)

    def collect(self) -> Iterator[MetricFamily | None]:
        if self._host.is_controller:
            yield from self._cluster()
        yield self._offsets("current_offset", "High watermark of the partition.", 1)
        yield self._offsets("oldest_offset", "First offset in the partition.", 0)
        yield self._replicas(
            "leader", "Id of the broker that leads the partition; -1 without one.", _leader
        )
        yield self._replicas("replicas", "Number of replicas of the partition.", _replica_count)
        yield self._replicas(
            "in_sync_replica", "Number of in-sync replicas of the partition.", _isr_count
        )
        yield self._replicas(
            "leader_is_preferred",
            "Whether the first replica of the partition leads it.",
            _leader_is_preferred,
        )
        yield self._replicas(
            "under_replicated_partition",
            "Whether replicas of the partition are out of sync.",
            _is_under_replicated,
        )

    def _cluster(self) -> Iterator[MetricFamily]:
        brokers = self._host.metadata.image.live_brokers()
        count: list[Sample] = [((), float(len(brokers)))]
        yield MetricFamily("kafka_brokers", "gauge", "Brokers that are not fenced.", (), count)
        listener = self._host.settings.inter_broker_listener.name
        addresses: list[Sample] = []
        for broker in brokers:
            inside = [each for each in broker.endpoints if each.listener == listener]
            endpoint = (inside or broker.endpoints)[0]
            labels = (str(broker.broker_id), f"{endpoint.host}:{endpoint.port}")
            addresses.append((labels, 1.0))
        yield MetricFamily(
            "kafka_broker_info", "info", "Address of the broker.", ("id", "address"), addresses
        )
        topics = self._host.metadata.image.topics
        names = sorted(topics)[: self._selected.limits.topics]
        yield MetricFamily(
            "kafka_topic_partitions",
            "gauge",
            "Number of partitions of the topic.",
            ("topic",),
            (((name,), float(len(topics[name].partitions))) for name in names),
        )

    def _offsets(self, name: str, help_text: str, which: int) -> MetricFamily:
        def samples() -> Iterator[Sample]:
            for leader in self._leaders():
                bounds = None if leader.closed else bounds_of(leader, self._host.logs)
                if bounds is not None:
                    yield (leader.topic, str(leader.index)), float(bounds[which])

        return MetricFamily(
            f"kafka_topic_partition_{name}", "gauge", help_text, _PARTITION, samples()
        )

    def _replicas(
        self, name: str, help_text: str, value: Callable[[Partition], float]
    ) -> MetricFamily:
        return MetricFamily(
            f"kafka_topic_partition_{name}",
            "gauge",
            help_text,
            _PARTITION,
            ((each.labels, value(each.partition)) for each in self._reported()),
        )

    def _leaders(self) -> Iterator[SoleLeader]:
        for topic in self._selected.topics():
            for leader in tuple(topic.leaders):
                if leader is not None:
                    yield leader

    def _reported(self) -> Iterator[_Reported]:
        """The partitions that this broker leads; at the controller also those without a leader."""
        image = self._host.metadata.image
        for leader in self._leaders():
            partition = image.partition(leader.topic, leader.index)
            if partition is not None and partition.leader == self._host.node_id:
                yield _Reported((leader.topic, str(leader.index)), partition)
        if self._host.is_controller:
            yield from islice(_without_leader(image), self._selected.limits.partitions)


def _without_leader(image: MetadataImage) -> Iterator[_Reported]:
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            if partition.leader == NO_LEADER:
                yield _Reported((name, str(index)), partition)


def _leader(partition: Partition) -> float:
    return float(partition.leader)


def _replica_count(partition: Partition) -> float:
    return float(len(partition.replicas))


def _isr_count(partition: Partition) -> float:
    return float(len(partition.isr))


def _leader_is_preferred(partition: Partition) -> float:
    return float(partition.leader == partition.replicas[0])


def _is_under_replicated(partition: Partition) -> float:
    return float(len(partition.isr) < len(partition.replicas))
