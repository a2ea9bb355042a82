"""The definition of a cluster workload: named figures, and one run against a new cluster."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bench.peers.cluster import Cluster
from bench.workload import Metric

# Some workloads measure the same thing several times in one run of a cluster.
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
        """`build` returns a new cluster, not started; the workload discards it."""
        ...
