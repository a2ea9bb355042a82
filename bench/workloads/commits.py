"""The rate of offset commits: one partition per request, the next one after the response."""

from dataclasses import dataclass

from bench import topics
from bench.workload import Contestant, Goal, Metric, Sample
from bench.workloads.meter import PER_MILLION, metered_after_setup, pick

CONNECTIONS = 50
METRICS = (
    Metric("per_second", "rate", "commits/s", "higher", Goal("ratio", 1.5), headline=True),
    Metric("broker_cpu", "broker CPU per million", "s", "lower", headline=True),
    Metric("client_cpu", "client CPU per million", "s", "lower"),
)


@dataclass(frozen=True, slots=True)
class Commits:
    """50 connections. Goal: 1.5 times Kafka's rate.

    With `joined` each is the only member of its own group; otherwise all commit to one group
    without members, each for its own partition.
    """

    name: str
    title: str
    joined: bool
    duration_ms: int
    metrics: tuple[Metric, ...] = METRICS
    warm_ups: int = 1

    def prepare(self, contestant: Contestant) -> None:
        topics.create(contestant.warm(), {self.name: CONNECTIONS})

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.warm()
        figures = metered_after_setup(
            peer,
            "commits",
            topic=self.name,
            group=self.name,
            groups=CONNECTIONS if self.joined else 1,
            members=1 if self.joined else CONNECTIONS,
            joined=int(self.joined),
            partitions=CONNECTIONS,
            duration_ms=self.duration_ms,
        )
        for who in ("broker", "client"):
            figures[f"{who}_cpu"] = figures[f"{who}_cpu_s"] * PER_MILLION / figures["count"]
        return pick(figures, self.metrics)

    def finish(self, contestant: Contestant) -> None:
        peer = contestant.running
        if peer is not None:
            topics.delete(peer, self.name)
