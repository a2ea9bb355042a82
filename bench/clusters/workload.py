"""What a workload on clusters is: named figures, and one run against a cluster that is new."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bench.peers.cluster import Cluster
from bench.workload import Metric

# Some workloads measure the same thing several times in one life of a cluster.
Samples = Mapping[str, Sequence[float]]
Build = Callable[[], Cluster]


class ClusterWorkload(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def metrics(self) -> tuple[Metric, ...]: ...

    def run(self, build: Build) -> Samples:
        """`build` gives a new cluster, not started; the workload discards it."""
        ...
