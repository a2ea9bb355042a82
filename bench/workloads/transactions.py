"""The transaction rate of one producer."""

from dataclasses import dataclass

from bench import topics
from bench.workload import Contestant, Goal, Metric, Sample
from bench.workloads.meter import metered, pick

# 1,000 seconds per million transactions are one millisecond each.
SECONDS_PER_MILLION_IN_MS = 1000
METRICS = (
    Metric("per_second", "rate", "transactions/s", "higher", Goal("ratio", 1.0), headline=True),
    Metric("broker_cpu", "broker CPU each", "ms", "lower", headline=True),
    Metric("client_cpu", "client CPU each", "ms", "lower"),
)


@dataclass(frozen=True, slots=True)
class Transactions:
    """100 records of 100 B to one partition, then a commit, repeatedly. Goal: Kafka's rate.

    librdkafka uses the first protocol version of transactions: a separate request adds the
    partition to each of them.
    """

    count: int
    per_transaction: int = 100
    size: int = 100
    name: str = "transactions"
    title: str = "Transactions of 100 records"
    metrics: tuple[Metric, ...] = METRICS
    warm_ups: int = 1

    def prepare(self, contestant: Contestant) -> None:
        contestant.warm()

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.warm()
        with topics.topic(peer, self.name, 1) as topic:
            figures = metered(
                peer,
                "transactions",
                self.count,
                topic=topic,
                group=self.name,
                size=self.size,
                per_transaction=self.per_transaction,
            )
        for who in ("broker", "client"):
            figures[f"{who}_cpu"] /= SECONDS_PER_MILLION_IN_MS
        return pick(figures, self.metrics)

    def finish(self, contestant: Contestant) -> None:
        """Does nothing: each run has deleted its own topic."""
