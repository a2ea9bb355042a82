"""Renders cluster results as a table and as docs/benchmarks-cluster.md. Pure."""

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
            "# Cluster benchmarks",
            "",
            "Headrace and Apache Kafka on the same machine, with three brokers, three replicas and",
            "`min.insync.replicas=2`. `script/bench cluster --publish` runs the measurements and",
            "writes this page.",
            "",
            "| " + " | ".join(header) + " |",
            "|" + "---|" * len(header),
            *("| " + " | ".join(row) + " |" for row in _rows(results)),
            "",
            "Each cell gives the median, and in parentheses the extremes and the number of",
            "samples. The ratio is Headrace / the better of the two Kafka versions. For rates,",
            "higher is better; for all other figures, lower is better.",
            f"Raw data: [{data_name}]({data_name}).",
            "",
            "## Machine and software",
            "",
            f"- {results.date}, {machine.cores} cores of {machine.processor},",
            f"  {machine.memory_gb:g} GB of memory, {machine.system}, {machine.file_system}. All",
            "  brokers, ZooKeeper and the client share the cores and the loopback interface.",
            f"- The load average before a workload was {min(loads):g} to {max(loads):g}; it",
            "  includes the benchmark's own earlier runs.",
            f"- Apache Kafka {KAFKA_VERSION}: three KRaft nodes, each a broker and a controller.",
            f"- Apache Kafka {KAFKA_WITH_ZOOKEEPER_VERSION} and Headrace: three brokers and one",
            "  ZooKeeper from PySpark's jars, with sessions of 6 s.",
            "- Kafka: 1 GB heap and the JVM flags of Kafka's own start script, on Java",
            f"  {machine.java}. Headrace: Python {machine.python}, with default settings.",
            "",
            "## Method",
            "",
            "- The systems take turns, with a new cluster for each run of a workload.",
            "- Longest time without acks: one partition, an idempotent confluent-kafka producer,",
            "  acks=all, 500 messages a second; the figure is the longest time between two",
            "  acknowledgements. The client looks for a new leader every 10 ms while it has none.",
            "  In the SIGSTOP case it gives up a silent connection after 3 s, the leader is paused",
            "  for 10 s, and five requests wait in its sockets when it continues. After each trial",
            "  the log must end at the last acknowledged record.",
            "- Throughput: six partitions, acks=all, idempotent. The CPU figure covers all three",
            "  brokers.",
            "- 5,000 partitions: topics of 500 partitions. *In sync* means that every broker",
            "  reports all replicas in sync. *All brokers* restarts all brokers after kill -9, so",
            "  it includes 6 s until the old sessions expire.",
            "- Catching up: from the first byte that reaches the broker until it is in sync. The",
            "  producer sends 500 messages of 100 B a second. Earlier writes are synced to disk",
            "  before the measurement; otherwise the kernel's write-back delays appends by up to",
            "  75 ms at arbitrary moments, whether a broker catches up or not.",
            "",
            *(("## Notes on these figures", "", notes.strip(), "") if notes.strip() else ()),
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
