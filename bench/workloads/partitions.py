"""Thousands of partitions: creation, memory and restart.

Kafka refuses a topic of 10,000 partitions in one request, so both get topics of 1,000.
"""

import time
from dataclasses import dataclass

from bench import topics
from bench.workload import Contestant, Goal, Metric, Sample
from bench.workloads.memory import settled_memory

TOPIC_PARTITIONS = 1000
CREATE_GOAL_S = 10.0
RESTART_GOAL_S = 5.0
IDLE_GOAL_MB = 250.0
MS_PER_S = 1000.0


def partition_metrics(*, goals: bool) -> tuple[Metric, ...]:
    def at_most(bound: float) -> Goal | None:
        return Goal("value", bound) if goals else None

    return (
        Metric("answer_s", "create, until answered", "s", "lower", headline=False),
        Metric("led_s", "create, until all led", "s", "lower", at_most(CREATE_GOAL_S), True),
        Metric("idle_rss_mb", "resident, idle", "MB", "lower", at_most(IDLE_GOAL_MB), True),
        Metric("stop_s", "clean shutdown", "s", "lower"),
        Metric("restart_s", "exec until all led", "s", "lower", at_most(RESTART_GOAL_S), True),
    )


@dataclass(frozen=True, slots=True)
class Partitions:
    """A new broker every time; `count` is a multiple of 1,000."""

    name: str
    title: str
    count: int
    metrics: tuple[Metric, ...]
    warm_ups: int = 0

    def prepare(self, contestant: Contestant) -> None:
        """Does nothing: each run is independent."""

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.fresh()
        topic_count = self.count // TOPIC_PARTITIONS
        try:
            peer.start()
            answered = topics.create(
                peer, *({f"wide-{i}": TOPIC_PARTITIONS} for i in range(topic_count))
            )
            asked = time.monotonic()
            peer.await_answer(led_partitions=self.count)
            led = answered + time.monotonic() - asked
            rss, _ = settled_memory(peer)
            stopped = peer.stop()
            peer.launch()
            restarted = peer.await_answer(led_partitions=self.count) / MS_PER_S
        finally:
            peer.discard()
        return {
            "answer_s": answered,
            "led_s": led,
            "idle_rss_mb": rss,
            "stop_s": stopped,
            "restart_s": restarted,
        }

    def finish(self, contestant: Contestant) -> None:
        """Does nothing: each run is independent."""
