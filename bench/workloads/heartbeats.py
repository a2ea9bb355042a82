"""The cost of many idle groups for a broker."""

from dataclasses import dataclass

from bench import topics
from bench.workload import Contestant, Goal, Metric, Sample
from bench.workloads.meter import metered_after_setup, pick

MEMBERS = 5
PAUSE_MS = 3000
JOIN_TIMEOUT_MS = 240_000
PERCENT = 100
CORE_GOAL_PERCENT = 50.0
METRICS = (
    Metric(
        "broker_core",
        "broker, share of a core",
        "%",
        "lower",
        Goal("value", CORE_GOAL_PERCENT),
        headline=True,
    ),
    Metric("per_second", "heartbeats answered", "/s", "higher"),
    Metric("join_s", "all members joined and synced", "s", "lower"),
)


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Members of classic groups, each with its own connection and a heartbeat every 3 s.

    Goal: at most half a core for 1,000 groups of five. Joining takes at least the 3 s of
    `group.initial.rebalance.delay.ms`; it is timed but not part of the CPU figure.
    """

    groups: int
    duration_ms: int
    name: str = "heartbeats"
    title: str = "Heartbeats of 1,000 groups of 5"
    metrics: tuple[Metric, ...] = METRICS
    warm_ups: int = 0

    def prepare(self, contestant: Contestant) -> None:
        topics.create(contestant.warm(), {self.name: 1})

    def run(self, contestant: Contestant) -> Sample:
        figures = metered_after_setup(
            contestant.warm(),
            "heartbeats",
            topic=self.name,
            group=self.name,
            groups=self.groups,
            members=MEMBERS,
            heartbeat_ms=PAUSE_MS,
            duration_ms=self.duration_ms,
            timeout_ms=JOIN_TIMEOUT_MS,
        )
        figures["broker_core"] = PERCENT * figures["broker_cpu_s"] / figures["seconds"]
        return pick(figures, self.metrics)

    def finish(self, contestant: Contestant) -> None:
        peer = contestant.running
        if peer is not None:
            topics.delete(peer, self.name)
