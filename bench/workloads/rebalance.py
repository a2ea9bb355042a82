"""How long a rebalance stops a large group."""

from dataclasses import dataclass

from bench import topics
from bench.workload import Contestant, Goal, Metric, Sample
from bench.workloads.meter import pick

REBALANCE_GOAL_MS = 1000.0
METRICS = (
    Metric(
        "p50_ms",
        "last join until last sync",
        "ms",
        "lower",
        Goal("value", REBALANCE_GOAL_MS),
        headline=True,
    ),
    Metric("max_ms", "the slowest round", "ms", "lower"),
)


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A stable classic group of 100 members: the leader joins again, then all others.

    From the last JoinGroup request to the last SyncGroup response, median of the rounds. Goal: 1 s.
    """

    members: int
    rounds: int = 7
    name: str = "rebalance"
    title: str = "Rebalance of 100 members"
    metrics: tuple[Metric, ...] = METRICS
    warm_ups: int = 1

    def prepare(self, contestant: Contestant) -> None:
        topics.create(contestant.warm(), {self.name: 1})

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.warm()
        figures = peer.load.run(
            "rebalance",
            peer.bootstrap,
            topic=self.name,
            group=self.name,
            members=self.members,
            rounds=self.rounds,
        )
        return pick(figures, self.metrics)

    def finish(self, contestant: Contestant) -> None:
        peer = contestant.running
        if peer is not None:
            topics.delete(peer, self.name)
