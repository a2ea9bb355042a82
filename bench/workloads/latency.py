"""Latency of one message at a rate that is easy for every broker."""

from dataclasses import dataclass
from typing import Literal

from bench import topics
from bench.workload import Contestant, Goal, Metric, Sample
from bench.workloads.meter import pick
from bench.workloads.produce import PARTITIONS

PARITY = Goal("ratio", 1.0)
METRICS = (
    Metric("p50_ms", "p50", "ms", "lower"),
    Metric("p99_ms", "p99", "ms", "lower", PARITY, headline=True),
    Metric("p999_ms", "p99.9", "ms", "lower"),
)


@dataclass(frozen=True, slots=True)
class Latency:
    """A paced producer without linger; `latency` times the response, `e2e` the receipt."""

    name: str
    title: str
    mode: Literal["latency", "e2e"]
    count: int
    rate: int
    size: int = 100
    metrics: tuple[Metric, ...] = METRICS
    warm_ups: int = 1

    def prepare(self, contestant: Contestant) -> None:
        contestant.warm()

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.warm()
        with topics.topic(peer, self.name, PARTITIONS) as topic:
            figures = peer.load.run(
                self.mode,
                peer.bootstrap,
                topic=topic,
                count=self.count,
                rate=self.rate,
                size=self.size,
                partitions=PARTITIONS,
                linger_ms=0,
            )
        return pick(figures, self.metrics)

    def finish(self, contestant: Contestant) -> None:
        """Does nothing: each run has deleted its own topic."""
