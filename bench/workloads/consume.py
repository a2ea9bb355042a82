"""The read speed of a broker. The load generator has written the messages."""

from dataclasses import dataclass

from bench import topics
from bench.workload import Contestant, Metric, Sample
from bench.workloads.meter import metered, pick
from bench.workloads.produce import PARTITIONS


@dataclass(frozen=True, slots=True)
class Consume:
    """Six partitions from their start, without a group; every run reads the same messages."""

    name: str
    title: str
    count: int
    size: int
    metrics: tuple[Metric, ...]
    warm_ups: int = 1

    def prepare(self, contestant: Contestant) -> None:
        peer = contestant.warm()
        topics.create(peer, {self.name: PARTITIONS})
        peer.load.run(
            "produce",
            peer.bootstrap,
            topic=self.name,
            count=self.count,
            size=self.size,
            partitions=PARTITIONS,
        )

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.warm()
        figures = metered(peer, "consume", self.count, topic=self.name, partitions=PARTITIONS)
        return pick(figures, self.metrics)

    def finish(self, contestant: Contestant) -> None:
        peer = contestant.running
        if peer is not None:
            topics.delete(peer, self.name)
