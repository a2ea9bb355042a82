"""The write speed of a broker, and its CPU cost."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench import topics
from bench.load_generator import Option
from bench.workload import Contestant, Metric, Sample
from bench.workloads.meter import metered, pick

PARTITIONS = 6


@dataclass(frozen=True, slots=True)
class Produce:
    """Messages of one size to six partitions of a new topic, as fast as the broker accepts them."""

    name: str
    title: str
    count: int
    size: int
    metrics: tuple[Metric, ...]
    options: Mapping[str, Option]
    warm_ups: int = 1

    def prepare(self, contestant: Contestant) -> None:
        contestant.warm()

    def run(self, contestant: Contestant) -> Sample:
        peer = contestant.warm()
        with topics.topic(peer, self.name, PARTITIONS) as topic:
            figures = metered(
                peer,
                "produce",
                self.count,
                topic=topic,
                size=self.size,
                partitions=PARTITIONS,
                **self.options,
            )
        return pick(figures, self.metrics)

    def finish(self, contestant: Contestant) -> None:
        """Does nothing: each run has deleted its own topic."""
