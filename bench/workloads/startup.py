"""The time from exec to the first response, and to the first message through a new topic."""

from dataclasses import dataclass

from bench.peers.headrace import Headrace
from bench.workload import Contestant, Goal, Metric, Sample
from bench.workloads.meter import pick

FIRST_ANSWER_GOAL_MS = 300.0
METRICS = (
    Metric(
        "metadata_ms",
        "first answered Metadata",
        "ms",
        "lower",
        Goal("value", FIRST_ANSWER_GOAL_MS),
        headline=True,
    ),
    Metric("message_ms", "first consumed message", "ms", "lower", headline=True),
)


@dataclass(frozen=True, slots=True)
class Startup:
    """A new broker every time. Kafka's storage is formatted beforehand; Headrace is ephemeral."""

    name: str = "startup"
    title: str = "Start-up, from exec"
    metrics: tuple[Metric, ...] = METRICS
    warm_ups: int = 1

    def prepare(self, contestant: Contestant) -> None:
        """Does nothing: each run is independent."""

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.fresh()
        if isinstance(peer, Headrace):
            peer.ephemeral = True
        try:
            peer.launch()
            figures = peer.load.run(
                "first", peer.bootstrap, topic="first", since_ns=peer.started_ns, linger_ms=0
            )
            return pick(figures, self.metrics)
        finally:
            peer.discard()

    def finish(self, contestant: Contestant) -> None:
        """Does nothing: each run is independent."""
