"""Results of clusters for people: a table, and docs/benchmarks-cluster.md. Pure."""

from collections.abc import Iterator, Mapping

from bench.artifacts import KAFKA_VERSION, KAFKA_WITH_ZOOKEEPER_VERSION
from bench.clusters.results import ClusterFigure, ClusterResults
from bench.report import number

TITLES: Mapping[str, str] = {
    "headrace": "Headrace",
    "kafka": f"Kafka {KAFKA_VERSION}, KRaft",
    "kafka-zk": f"Kafka {KAFKA_WITH_ZOOKEEPER_VERSION}, ZooKeeper",
}


def table(results: ClusterResults) -> str:
    rows = [_header(results), *_rows(results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def document(results: ClusterResults, *, data_name: str, notes: str = "") -> str:
    header = _header(results)
    machine = results.machine
    loads = [workload.load_average for workload in results.workloads] or [0.0]
    return "\n".join(
        [
            "# Benchmarks of clusters",
            "",
            "Three brokers, three replicas, `min.insync.replicas=2`, beside Apache Kafka on one",
            "machine; measured by `script/bench cluster --publish`, which also wrote this page.",
            "",
            "| " + " | ".join(header) + " |",
            "|" + "---|" * len(header),
            *("| " + " | ".join(row) + " |" for row in _rows(results)),
            "",
            "Medians, with the extremes and the number of samples. The ratio is Headrace over the",
            "better of the peers: for rates more is better, for everything else less.",
            f"Raw data: [{data_name}]({data_name}).",
            "",
            "## Where and how",
            "",
            f"- {results.date}, {machine.cores} cores of {machine.processor},",
            f"  {machine.memory_gb:g} GB of memory, {machine.system}, {machine.file_system}. All",
            "  brokers, ZooKeeper and the client share the cores and the loopback interface.",
            f"- Before a workload the load average was {min(loads):g} to {max(loads):g}.",
            f"- Apache Kafka {KAFKA_VERSION}: three KRaft nodes that are broker and controller;",
            f"  {KAFKA_WITH_ZOOKEEPER_VERSION} and Headrace: three brokers, one ZooKeeper from",
            "  PySpark's jars, sessions of 6 s. Kafka: 1 GB of heap and the JVM flags of its own",
            f"  start script, Java {machine.java}. Headrace: Python {machine.python}, defaults.",
            "- Contestants take turns: a new cluster for each run of a workload.",
            "- Time without acks: one partition, an idempotent confluent-kafka producer, acks=all,",
            "  500 messages a second; the longest time between two of them. The client looks",
            "  for new leaders every 10 ms while it misses one, and for SIGSTOP gives up a silent",
            "  connection after 3 s. The paused leader stands still 10 s; five requests wait in",
            "  its sockets when it goes on. After each trial the log must end where the",
            "  acknowledgements do.",
            "- Throughput: six partitions, acks=all, idempotent. CPU is that of the three brokers.",
            "- 5,000 partitions: topics of 500. In sync means that each broker says so of all.",
            "- Catching up: from the first byte that reaches the broker until it is in sync; the",
            "  producer sends 500 messages of 100 B a second.",
            "",
            *(("## This publication", "", notes.strip(), "") if notes.strip() else ()),
        ]
    )


def _header(results: ClusterResults) -> tuple[str, ...]:
    names = (TITLES[name] for name in results.contestants)
    return ("workload", "figure", *names, "goal", "ratio", "met")


def _rows(results: ClusterResults) -> Iterator[tuple[str, ...]]:
    for workload in results.workloads:
        for index, figure in enumerate(workload.figures):
            yield (
                "" if index else workload.title,
                figure.metric.title,
                *(_cell(figure, name) for name in results.contestants),
                _goal(figure),
                f"{figure.ratio:.2f}x" if figure.ratio is not None else "-",
                {True: "yes", False: "NO", None: ""}[figure.met],
            )


def _cell(figure: ClusterFigure, contestant: str) -> str:
    samples = figure.samples.get(contestant)
    median = figure.median(contestant)
    if not samples or median is None:
        return "-"
    unit = f" {figure.metric.unit}" if figure.metric.unit else ""
    if len(samples) == 1:
        return f"{number(median)}{unit}"
    extremes = f"{number(min(samples))}..{number(max(samples))}"
    return f"{number(median)}{unit} ({extremes}; {len(samples)})"


def _goal(figure: ClusterFigure) -> str:
    goal = figure.metric.goal
    if goal is None:
        return ""
    sign = ">=" if figure.metric.better == "higher" else "<="
    unit = "x" if goal.of == "ratio" else f" {figure.metric.unit}".rstrip()
    return f"{sign} {goal.bound:g}{unit}"
