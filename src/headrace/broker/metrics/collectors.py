"""All collectors of a broker, in the order of `/metrics`.

The module is imported when the HTTP port is opened, so a broker without it pays nothing. A new
collector is built in `build_collectors`.
"""

from typing import Protocol

from headrace.broker.lag.group_metrics import GroupMetrics, GroupMetricsHost
from headrace.broker.lag.topic_metrics import TopicMetrics, TopicMetricsHost
from headrace.metrics.family import Collector


class CollectorsHost(GroupMetricsHost, TopicMetricsHost, Protocol):
    """What the collectors need of the broker."""


def build_collectors(broker: CollectorsHost) -> tuple[Collector, ...]:
    """The collectors of this broker; built once, when the HTTP port opens."""
    return (TopicMetrics(broker), GroupMetrics(broker))
