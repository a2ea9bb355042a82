"""Whether reading only committed records costs a consumer speed."""

import statistics
from dataclasses import dataclass
from typing import Literal

from bench import topics
from bench.peers.peer import Peer
from bench.workload import Contestant, Goal, Metric, Sample
from bench.workloads.produce import PARTITIONS

KEPT_GOAL = 0.9
FILL_TIMEOUT_MS = 300_000
Isolation = Literal["uncommitted", "committed"]
# In both directions: changes of the machine meanwhile affect both alike.
ORDER: tuple[Isolation, ...] = ("uncommitted", "committed", "committed", "uncommitted")
METRICS = (
    Metric("uncommitted", "read_uncommitted", "msg/s", "higher"),
    Metric("committed", "read_committed", "msg/s", "higher", headline=True),
    Metric("kept", "committed / uncommitted", "x", "higher", Goal("value", KEPT_GOAL)),
)


@dataclass(frozen=True, slots=True)
class ReadCommitted:
    """A topic of 100 B records written in transactions, read completely at both isolation levels.

    Goal: read_committed has 0.9 of the speed of read_uncommitted, on the same broker.
    """

    transactions: int
    per_transaction: int = 1000
    size: int = 100
    name: str = "read-committed"
    title: str = "Consume 100 B written in transactions"
    metrics: tuple[Metric, ...] = METRICS
    warm_ups: int = 1

    def prepare(self, contestant: Contestant) -> None:
        peer = contestant.warm()
        topics.create(peer, {self.name: PARTITIONS})
        peer.load.run(
            "transactions",
            peer.bootstrap,
            topic=self.name,
            group=self.name,
            count=self.transactions,
            per_transaction=self.per_transaction,
            size=self.size,
            partitions=PARTITIONS,
            timeout_ms=FILL_TIMEOUT_MS,
        )

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.warm()
        rates: dict[str, list[float]] = {"uncommitted": [], "committed": []}
        for isolation in ORDER:
            rates[isolation].append(self._consume(peer, isolation))
        uncommitted, committed = (
            statistics.mean(rates[isolation]) for isolation in ("uncommitted", "committed")
        )
        return {
            "uncommitted": uncommitted,
            "committed": committed,
            "kept": committed / uncommitted,
        }

    def _consume(self, peer: Peer, isolation: Isolation) -> float:
        answer = peer.load.run(
            "consume",
            peer.bootstrap,
            topic=self.name,
            count=self.transactions * self.per_transaction,
            partitions=PARTITIONS,
            isolation=f"read_{isolation}",
        )
        return answer["per_second"]

    def finish(self, contestant: Contestant) -> None:
        peer = contestant.running
        if peer is not None:
            topics.delete(peer, self.name)
