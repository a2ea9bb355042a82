"""All workloads in the order in which they run and are reported, with their goals."""

from collections.abc import Mapping

from bench.load_generator import Option
from bench.workload import Workload
from bench.workloads.commits import Commits
from bench.workloads.compaction import Compaction
from bench.workloads.consume import Consume
from bench.workloads.fixture import Fixture
from bench.workloads.heartbeats import Heartbeats
from bench.workloads.latency import Latency
from bench.workloads.long_log import LongLog
from bench.workloads.memory import MemoryUse
from bench.workloads.meter import throughput_metrics
from bench.workloads.partitions import Partitions, partition_metrics
from bench.workloads.produce import Produce
from bench.workloads.read_committed import ReadCommitted
from bench.workloads.rebalance import Rebalance
from bench.workloads.startup import Startup
from bench.workloads.tls_connections import Handshakes, TlsConnections
from bench.workloads.transactions import Transactions

SMALL, LARGE = 100, 1000
HANDSHAKE_SECONDS = 4
TLS_CONNECTIONS = 1000
CPU_GOAL = 0.6
GB = 1_000_000_000
# librdkafka's default is practically unlimited; an idempotent producer may have five.
PIPELINED = 1000
# The load generator leaves out the first second.
MIN_PACED = 2500
# One pair of 10,000 partitions takes two minutes, nearly all of it Kafka's, and the ratio is far
# from 1. One pair of compaction or heartbeats takes about one minute, and their goals are not
# ratios.
MAX_PAIRS: Mapping[str, int] = {"partitions-10k": 4, "compaction": 3, "heartbeats": 5}
ACKS_ONE: Mapping[str, Option] = {"acks": "1", "linger_ms": 5, "in_flight": PIPELINED}
ACKS_ALL: Mapping[str, Option] = {"acks": "all", "idempotence": 1, "linger_ms": 5, "in_flight": 5}


def catalogue(*, scale: float, big_log_gb: float) -> list[Workload]:
    """`scale` reduces the message counts for a quick run; published figures use 1."""

    def many(count: int) -> int:
        return max(1000, int(count * scale))

    small, large = many(3_000_000), many(600_000)
    paced = max(MIN_PACED, many(5000))
    return [
        *_produce(small, large),
        Consume(
            "consume-100b",
            "Consume 100 B",
            small,
            SMALL,
            throughput_metrics(rate_goal=1.0, cpu_goal=CPU_GOAL),
        ),
        Consume("consume-1kb", "Consume 1 kB", large, LARGE, throughput_metrics(cpu_goal=CPU_GOAL)),
        Produce(
            "single",
            "One record per request, acks=1",
            many(50_000),
            SMALL,
            throughput_metrics(rate_goal=5.0, cpu_goal=CPU_GOAL),
            {"acks": "1", "linger_ms": 0, "batch_messages": 1, "in_flight": PIPELINED},
        ),
        *_coordinators(scale),
        Latency("latency", "Produce latency at 500/s", "latency", paced, 500),
        Latency("e2e", "End-to-end latency at 500/s", "e2e", paced, 500),
        Startup(),
        MemoryUse(small, large),
        Partitions(
            "partitions-1k", "1,000 partitions", 1000, partition_metrics(goals=False), warm_ups=0
        ),
        Partitions("partitions-10k", "10,000 partitions", 10_000, partition_metrics(goals=True)),
        Fixture(),
        Compaction(many(3_000_000), many(1_000_000)),
        LongLog(int(big_log_gb * GB), many(300_000)),
    ]


def secured_catalogue(*, scale: float) -> list[Workload]:
    """Workloads for peers with TLS and SASL; the goal is Kafka's own speed."""

    def many(count: int) -> int:
        return max(1000, int(count * scale))

    small, large = many(3_000_000), many(600_000)
    metrics = throughput_metrics(rate_goal=1.0, cpu_goal=1.0)
    return [
        Produce(
            "produce-100b-sasl-ssl",
            "Produce 100 B, acks=1, SASL_SSL",
            small,
            SMALL,
            metrics,
            ACKS_ONE,
        ),
        Produce(
            "produce-1kb-sasl-ssl",
            "Produce 1 kB, acks=1, SASL_SSL",
            large,
            LARGE,
            metrics,
            ACKS_ONE,
        ),
        Consume("consume-100b-sasl-ssl", "Consume 100 B, SASL_SSL", small, SMALL, metrics),
        Consume("consume-1kb-sasl-ssl", "Consume 1 kB, SASL_SSL", large, LARGE, metrics),
        Handshakes(HANDSHAKE_SECONDS),
        TlsConnections(max(TLS_CONNECTIONS // 10, int(TLS_CONNECTIONS * scale))),
    ]


def _coordinators(scale: float) -> list[Workload]:
    """Groups and transactions."""

    def some(count: int, least: int) -> int:
        return max(least, int(count * scale))

    duration_ms = some(5000, 1000)
    return [
        Commits("commits", "Offset commits, 50 groups", joined=True, duration_ms=duration_ms),
        Commits(
            "commits-shared", "Offset commits, one group", joined=False, duration_ms=duration_ms
        ),
        Heartbeats(some(1000, 100), some(12_000, 3000)),
        Rebalance(members=100),
        Transactions(some(1000, 100)),
        ReadCommitted(some(1000, 100)),
    ]


def _produce(small: int, large: int) -> list[Produce]:
    plain = throughput_metrics
    return [
        Produce(
            "produce-100b",
            "Produce 100 B, acks=1",
            small,
            SMALL,
            plain(rate_goal=1.05, cpu_goal=CPU_GOAL),
            ACKS_ONE,
        ),
        Produce(
            "produce-1kb",
            "Produce 1 kB, acks=1",
            large,
            LARGE,
            plain(rate_goal=1.2, cpu_goal=CPU_GOAL),
            ACKS_ONE,
        ),
        Produce(
            "produce-100b-all",
            "Produce 100 B, acks=all, idempotent",
            small,
            SMALL,
            plain(rate_goal=1.0, cpu_goal=CPU_GOAL),
            ACKS_ALL,
        ),
        Produce(
            "produce-1kb-all",
            "Produce 1 kB, acks=all, idempotent",
            large,
            LARGE,
            plain(rate_goal=1.0, cpu_goal=CPU_GOAL),
            ACKS_ALL,
        ),
        *(
            Produce(
                f"produce-keyed-{codec}",
                f"Produce 1 kB, keyed, {codec}, acks=1",
                large,
                LARGE,
                plain(),
                {**ACKS_ONE, "codec": codec, "keyed": 1},
            )
            for codec in ("lz4", "zstd")
        ),
    ]
