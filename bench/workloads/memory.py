"""Memory of a broker that has just started, and of one after a load."""

import time
from dataclasses import dataclass

from bench import topics
from bench.peers.peer import Peer, Served
from bench.workload import Contestant, Goal, Metric, Sample
from bench.workloads.produce import PARTITIONS

MB = 1_000_000
IDLE_GOAL_MB = 60.0
LOADED_GOAL_MB = 150.0
SETTLE_STEP_S = 0.5
SETTLE_STEPS = 20
SETTLED_SHARE = 0.005

METRICS = (
    Metric("idle_rss_mb", "resident, idle", "MB", "lower", Goal("value", IDLE_GOAL_MB), True),
    Metric("idle_pss_mb", "proportional, idle", "MB", "lower"),
    Metric(
        "load_rss_mb", "resident, after load", "MB", "lower", Goal("value", LOADED_GOAL_MB), True
    ),
    Metric("load_pss_mb", "proportional, after load", "MB", "lower"),
)


def settled_memory(peer: Served) -> tuple[float, float]:
    """Resident and proportional MB once they are stable, or after ten seconds."""
    last = peer.memory()
    for _ in range(SETTLE_STEPS):
        time.sleep(SETTLE_STEP_S)
        now = peer.memory()
        if abs(now.rss_bytes - last.rss_bytes) <= last.rss_bytes * SETTLED_SHARE:
            break
        last = now
    return now.rss_bytes / MB, now.pss_bytes / MB


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The load is the 100 B and 1 kB messages of the throughput workloads, written and read."""

    small: int
    large: int
    name: str = "memory"
    title: str = "Memory"
    metrics: tuple[Metric, ...] = METRICS
    warm_ups: int = 0

    def prepare(self, contestant: Contestant) -> None:
        """Does nothing: each run is independent."""

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.fresh()
        try:
            peer.start()
            idle_rss, idle_pss = settled_memory(peer)
            for size, count in ((100, self.small), (1000, self.large)):
                self._load(peer, size, count)
            load_rss, load_pss = settled_memory(peer)
        finally:
            peer.discard()
        return {
            "idle_rss_mb": idle_rss,
            "idle_pss_mb": idle_pss,
            "load_rss_mb": load_rss,
            "load_pss_mb": load_pss,
        }

    def _load(self, peer: Peer, size: int, count: int) -> None:
        with topics.topic(peer, f"memory-{size}", PARTITIONS) as topic:
            for mode in ("produce", "consume"):
                peer.load.run(
                    mode, peer.bootstrap, topic=topic, count=count, size=size, partitions=PARTITIONS
                )

    def finish(self, contestant: Contestant) -> None:
        """Does nothing: each run is independent."""
