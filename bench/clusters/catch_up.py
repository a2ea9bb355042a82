"""A broker returns a gigabyte behind: its catch-up speed, and the cost for other clients."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from bench import topics
from bench.clusters.failover import warm_up
from bench.clusters.workload import Build, Samples
from bench.load_generator import BackgroundLoad
from bench.peers.cluster import Cluster
from bench.peers.node import Node
from bench.workload import Goal, Metric
from bench.workloads.catalogue import ACKS_ALL

PARTITIONS, REPLICAS = 6, 3
SIZE = 1000
RATE = 500
BASELINE_S = 8.0
READY_S, FINISH_S = 60.0, 60.0
CATCH_UP_TIMEOUT_S = 300.0
SPEED_GOAL_MB, LATENCY_GOAL = 100.0, 2.0
POLL_S = 0.02
MB = 1_000_000
METRICS = (
    Metric("mb_per_second", "catch-up rate", "MB/s", "higher", Goal("value", SPEED_GOAL_MB), True),
    Metric("p99_ms", "produce p99 before", "ms", "lower"),
    Metric("p99_during_ms", "produce p99 during", "ms", "lower"),
    Metric("p99_times", "p99 during / before", "x", "lower", Goal("value", LATENCY_GOAL), True),
)


@dataclass(frozen=True, slots=True)
class CatchUp:
    """`count` messages of 1 kB are written while one broker is stopped."""

    count: int
    name: str = "catch-up"
    title: str = "Broker that returns 1 GB behind"
    metrics: tuple[Metric, ...] = METRICS

    def run(self, build: Build) -> Samples:
        cluster = build()
        try:
            cluster.start()
            warm_up(cluster)
            topics.create(cluster, {"behind": PARTITIONS}, replicas=REPLICAS)
            cluster.await_in_sync()
            away = next(each for each in cluster.brokers if each is not cluster.controller())
            away.stop()
            self._write(cluster)
            before = self._baseline(cluster)
            speed, during = self._return(cluster, away)
        finally:
            cluster.discard()
        return {
            "mb_per_second": [speed],
            "p99_ms": [before["p99_ms"]],
            "p99_during_ms": [during["p99_ms"]],
            "p99_times": [during["p99_ms"] / before["p99_ms"]],
        }

    def _write(self, cluster: Cluster) -> None:
        cluster.load.run(
            "produce",
            cluster.bootstrap,
            topic="behind",
            count=self.count,
            size=SIZE,
            partitions=PARTITIONS,
            **ACKS_ALL,
        )
        # The kernel writes it to the disk at an unpredictable time, and every process waits for it.
        # That would distort one of the two compared figures.
        os.sync()

    def _baseline(self, cluster: Cluster) -> Mapping[str, float]:
        with _paced(cluster) as load:
            time.sleep(BASELINE_S)
            return load.finish(FINISH_S)

    def _return(self, cluster: Cluster, away: Node) -> tuple[float, Mapping[str, float]]:
        """From the first byte that reaches the broker until every broker shows it in sync."""
        size = _bytes_of(away)
        with _paced(cluster) as load:
            away.launch()
            cluster.wait(lambda: _bytes_of(away) > size, "the broker fetches", CATCH_UP_TIMEOUT_S)
            load.count_from_now()
            began = time.monotonic()
            cluster.await_in_sync(CATCH_UP_TIMEOUT_S)
            seconds = time.monotonic() - began
            copied = _bytes_of(away) - size
            return copied / MB / seconds, load.finish(FINISH_S)


@contextmanager
def _paced(cluster: Cluster) -> Iterator[BackgroundLoad]:
    with cluster.load.background(
        "steady",
        cluster.bootstrap,
        topic="behind",
        rate=RATE,
        partitions=PARTITIONS,
        acks="all",
        idempotence=1,
        linger_ms=0,
    ) as load:
        load.await_ready(READY_S)
        yield load


def _bytes_of(broker: Node) -> int:
    return sum(file.stat().st_size for file in broker.data.glob("behind-*/*.log"))
