"""`script/bench cluster`: each workload runs on the clusters alternately; a table compares them."""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import artifacts, machine
from bench.clusters import report
from bench.clusters.catch_up import CatchUp
from bench.clusters.failover import METRICS as FAILOVER_METRICS
from bench.clusters.failover import Failover
from bench.clusters.partitions import ManyPartitions
from bench.clusters.produce import ReplicatedProduce
from bench.clusters.results import ClusterFigure, ClusterResult, ClusterResults, load, merge, save
from bench.clusters.workload import Build, ClusterWorkload
from bench.load_generator import LoadError, LoadGenerator
from bench.peers.cluster import Cluster
from bench.peers.headrace_cluster import HeadraceCluster
from bench.peers.kafka_cluster import KafkaWithKRaft, KafkaWithZooKeeper
from bench.peers.peer import PeerError

ROOT = Path(__file__).parents[2]
PEERS = ("headrace", "kafka", "kafka-zk")
PAGE, DATA, NOTES = (
    "benchmarks-cluster.md",
    "benchmarks-cluster.json",
    "benchmarks-cluster-notes.md",
)
FAILOVER_CASES = tuple(metric.key for metric in FAILOVER_METRICS if metric.unit)
WORKLOADS = ("failover", "replicated-100b", "replicated-1kb", "partitions-5k", "catch-up")


def catalogue(options: argparse.Namespace) -> list[ClusterWorkload]:
    shrunk = 0.1 if options.quick else 1.0
    return [
        Failover(options.trials, tuple(options.cases)),
        ReplicatedProduce(
            "replicated-100b",
            "Produce 100 B, three replicas, acks=all",
            int(2_000_000 * shrunk),
            100,
            options.trials,
        ),
        ReplicatedProduce(
            "replicated-1kb",
            "Produce 1 kB, three replicas, acks=all",
            int(300_000 * shrunk),
            1000,
            options.trials,
        ),
        ManyPartitions(500 if options.quick else 5000),
        CatchUp(int(1_000_000 * shrunk)),
    ]


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    if options.merge:
        results = merge([load(path) for path in options.merge], PEERS)
    else:
        try:
            with artifacts.alone():
                results = measure(options)
        except (artifacts.MissingToolError, artifacts.BusyError) as problem:
            print(problem, file=sys.stderr)
            return 1
    print(report.table(results))
    if options.publish:
        publish(results, ROOT / "docs")
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench cluster", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="turns that each contestant takes")
    parser.add_argument("--trials", type=int, default=5, help="repetitions within a turn")
    parser.add_argument(
        "--only", nargs="+", choices=WORKLOADS, metavar="WORKLOAD", help=", ".join(WORKLOADS)
    )
    parser.add_argument("--cases", nargs="+", choices=FAILOVER_CASES, default=FAILOVER_CASES)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--quick", action="store_true", help="a tenth of messages and partitions")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), help="where data goes")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench" / "cluster.json")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="JSON", help="report these runs")
    parser.add_argument("--publish", action="store_true", help="write docs/benchmarks-cluster.*")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> ClusterResults:
    generator = LoadGenerator(artifacts.load_generator())
    done: list[ClusterResult] = []

    def so_far() -> ClusterResults:
        return ClusterResults(
            machine.describe(options.work),
            datetime.now(UTC).date().isoformat(),
            tuple(options.peers),
            tuple(done),
        )

    home = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=options.work))
    try:
        for workload in catalogue(options):
            if options.only and workload.name not in options.only:
                continue
            done.append(_take_turns(workload, options, generator, home))
            save(so_far(), options.json)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return so_far()


def _take_turns(
    workload: ClusterWorkload, options: argparse.Namespace, generator: LoadGenerator, home: Path
) -> ClusterResult:
    """Prints the failure of a contestant at once and leaves its cell empty."""
    average = round(os.getloadavg()[0], 2)
    samples: dict[str, dict[str, list[float]]] = {
        metric.key: {name: [] for name in options.peers} for metric in workload.metrics
    }
    for turn in range(options.rounds):
        for name in options.peers if turn % 2 == 0 else reversed(options.peers):
            try:
                measured = workload.run(builder(name, home / f"{workload.name}-{name}", generator))
            except (LoadError, PeerError) as problem:
                print(f"{workload.name}, {name}: {problem}", file=sys.stderr)
                continue
            stamp = time.strftime("%H:%M:%S")
            print(f"{stamp} {workload.name} {name}: {json.dumps(measured)}", file=sys.stderr)
            for key, values in measured.items():
                samples[key][name].extend(values)
    figures = tuple(ClusterFigure(metric, samples[metric.key]) for metric in workload.metrics)
    return ClusterResult(workload.name, workload.title, figures, average)


def builder(name: str, home: Path, generator: LoadGenerator) -> Build:
    def build() -> Cluster:
        if name == "kafka":
            return KafkaWithKRaft(home, generator, artifacts.kafka_jars())
        if name == "kafka-zk":
            jars = artifacts.kafka_jars(artifacts.KAFKA_WITH_ZOOKEEPER_VERSION)
            return KafkaWithZooKeeper(home, generator, jars)
        return HeadraceCluster(home, generator)

    return build


def publish(results: ClusterResults, docs: Path) -> None:
    notes = (docs / NOTES).read_text() if (docs / NOTES).exists() else ""
    (docs / PAGE).write_text(report.document(results, data_name=DATA, notes=notes))
    save(results, docs / DATA)
