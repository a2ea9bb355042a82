"""The joint write speed of three brokers, and its cost."""

from dataclasses import dataclass

from bench import topics
from bench.clusters.failover import warm_up
from bench.clusters.workload import Build, Samples
from bench.workload import Goal, Metric
from bench.workloads.catalogue import ACKS_ALL
from bench.workloads.memory import MB, settled_memory
from bench.workloads.meter import metered

PARTITIONS = 6
REPLICAS = 3
MEMORY_GOAL_MB = 150.0
METRICS = (
    Metric("per_second", "rate", "msg/s", "higher", Goal("ratio", 1.0), headline=True),
    Metric("broker_cpu", "CPU of brokers per million", "s", "lower", Goal("ratio", 1.0), True),
    Metric("client_cpu", "client CPU per million", "s", "lower"),
    Metric(
        "memory_mb", "largest broker, resident", "MB", "lower", Goal("value", MEMORY_GOAL_MB), True
    ),
)


@dataclass(frozen=True, slots=True)
class ReplicatedProduce:
    """`times` new topics in one run of a cluster; an idempotent producer with acks=all."""

    name: str
    title: str
    count: int
    size: int
    times: int
    metrics: tuple[Metric, ...] = METRICS

    def run(self, build: Build) -> Samples:
        samples: dict[str, list[float]] = {metric.key: [] for metric in self.metrics}
        cluster = build()
        try:
            cluster.start()
            warm_up(cluster)
            for number in range(self.times):
                with topics.topic(
                    cluster, f"{self.name}-{number}", PARTITIONS, replicas=REPLICAS
                ) as topic:
                    cluster.await_in_sync()
                    figures = metered(
                        cluster,
                        "produce",
                        self.count,
                        topic=topic,
                        size=self.size,
                        partitions=PARTITIONS,
                        **ACKS_ALL,
                    )
                for key in ("per_second", "broker_cpu", "client_cpu"):
                    samples[key].append(figures[key])
                samples["memory_mb"].append(cluster.memory().rss_bytes / MB)
            samples["memory_mb"].append(settled_memory(cluster)[0])
        finally:
            cluster.discard()
        return samples
