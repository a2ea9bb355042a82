"""Which topics and partitions have series of their own in /metrics.

Totals always count everything. The limits follow the order of the names, so the same topics have
series in each scrape.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from headrace.broker.partitions.partition_table import HostedTopic, PartitionTable
from headrace.cluster.settings import BrokerSettings


class SeriesLimits(NamedTuple):
    """The limits of a broker."""

    topics: int
    partitions: int

    @classmethod
    def from_settings(cls, settings: BrokerSettings) -> "SeriesLimits":
        return cls(
            settings.integer("headrace.http.max.topics"),
            settings.integer("headrace.http.max.partitions"),
        )


class SeriesHost(Protocol):
    """What a selection of topics needs of the broker."""

    partitions: PartitionTable
    settings: BrokerSettings


class SelectedTopics:
    """The topics within the limits."""

    def __init__(self, host: SeriesHost) -> None:
        self._table = host.partitions
        self.limits = SeriesLimits.from_settings(host.settings)

    def topics(self) -> Iterator[HostedTopic]:
        """The topics of which this broker has replicas, up to the limits."""
        partitions = 0
        topics = 0
        for name in sorted(self._table.by_name):
            topic = self._table.by_name.get(name)
            hosted = 0 if topic is None else _replica_count(topic)
            if topic is None or not hosted:
                continue
            topics += 1
            partitions += hosted
            if topics > self.limits.topics or partitions > self.limits.partitions:
                return
            yield topic

    def hosted_topics(self) -> int:
        """The topics of which this broker has replicas."""
        return sum(1 for topic in tuple(self._table.by_name.values()) if _replica_count(topic))


def _replica_count(topic: HostedTopic) -> int:
    return len(topic.leaders) - topic.leaders.count(None) + len(topic.followers)
