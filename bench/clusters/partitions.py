"""Thousands of partitions on three brokers.

Measures their creation, the failover of a third of their leaders, the restart, and how soon every
broker knows of one change.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench import topics
from bench.clusters.workload import Build, Samples
from bench.peers.cluster import Cluster, in_sync
from bench.wire import Wire
from bench.workload import Goal, Metric
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

TOPIC_PARTITIONS = 500
REPLICAS = 3
PHASE_GOAL_S, CHANGE_GOAL_MS = 30.0, 100.0
PHASE_TIMEOUT_S = 300.0
CHANGES = 15
METADATA_VERSION = 9
CHANGE_TIMEOUT_S = 30.0
CHANGE_POLL_S = 0.002
METRICS = (
    Metric("create_s", "create, until in sync", "s", "lower"),
    Metric("failover_s", "kill -9, until all led", "s", "lower", Goal("value", PHASE_GOAL_S), True),
    Metric(
        "return_s", "killed broker, exec until in sync", "s", "lower", Goal("value", PHASE_GOAL_S)
    ),
    Metric("start_s", "all brokers, exec until in sync", "s", "lower", Goal("value", PHASE_GOAL_S)),
    Metric(
        "change_ms",
        "new topic, until known to all brokers",
        "ms",
        "lower",
        Goal("value", CHANGE_GOAL_MS),
        True,
    ),
    Metric("memory_mb", "largest broker, resident", "MB", "lower"),
)


@dataclass(frozen=True, slots=True)
class ManyPartitions:
    count: int = 5000
    name: str = "partitions-5k"
    title: str = "5,000 partitions, three replicas"
    metrics: tuple[Metric, ...] = METRICS

    def run(self, build: Build) -> Samples:
        cluster = build()
        try:
            cluster.start()
            return {key: [value] for key, value in self._phases(cluster).items()}
        finally:
            cluster.discard()

    def _phases(self, cluster: Cluster) -> dict[str, float]:
        wide = [f"wide-{number}" for number in range(self.count // TOPIC_PARTITIONS)]
        figures: dict[str, float] = {}

        def timed(key: str, condition: Callable[[], bool]) -> None:
            began = time.monotonic()
            cluster.wait(condition, key, PHASE_TIMEOUT_S)
            figures[key] = figures.get(key, 0.0) + time.monotonic() - began

        figures["create_s"] = topics.create(
            cluster, *({name: TOPIC_PARTITIONS} for name in wide), replicas=REPLICAS
        )
        timed("create_s", lambda: self._whole(cluster))
        figures["change_ms"] = statistics.median(
            _change_ms(cluster, f"change-{number}") for number in range(CHANGES)
        )
        figures["memory_mb"] = cluster.memory().rss_bytes / 1e6
        victim = next(each for each in cluster.brokers if each is not cluster.controller())
        victim.kill()
        timed("failover_s", lambda: _led_without(cluster, victim.number))
        victim.launch()
        timed("return_s", lambda: self._whole(cluster))
        for broker in cluster.brokers:
            broker.kill()
        for broker in cluster.brokers:
            broker.launch()
        timed("start_s", lambda: self._whole(cluster))
        return figures

    def _whole(self, cluster: Cluster) -> bool:
        """Whether every broker shows every partition with all its replicas in sync."""
        for broker in cluster.brokers:
            view = cluster.view(broker)
            count = sum(len(topic.partitions) for topic in view.topics)
            if count < self.count or not in_sync(view):
                return False
        return True


def _led_without(cluster: Cluster, gone: int) -> bool:
    """Whether every remaining broker shows a remaining leader for every partition."""
    for broker in cluster.brokers:
        if broker.number == gone:
            continue
        for topic in cluster.view(broker).topics:
            for partition in topic.partitions:
                if partition.leader_id in (gone, -1):
                    return False
    return True


def _change_ms(cluster: Cluster, name: str) -> float:
    """From the request for a topic to the moment when the last broker shows it."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    wires = [Wire(broker.address) for broker in cluster.brokers]
    try:
        for wire in wires:  # connections are open before the clock starts
            wire.call(request, MetadataResponse, METADATA_VERSION)
        with topics.creating(cluster, name, partitions=1, replicas=REPLICAS):
            began = time.monotonic()
            left = list(wires)
            while left and time.monotonic() < began + CHANGE_TIMEOUT_S:
                left = [wire for wire in left if not _knows(wire, request)]
                time.sleep(CHANGE_POLL_S)
            return (time.monotonic() - began) * 1000
    finally:
        for wire in wires:
            wire.close()


def _knows(wire: Wire, request: MetadataRequest) -> bool:
    (topic,) = wire.call(request, MetadataResponse, METADATA_VERSION).topics
    return not topic.error_code and all(each.leader_id >= 0 for each in topic.partitions)
