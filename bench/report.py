"""Renders results as a table for the terminal and as docs/benchmarks.md. Pure."""

import statistics
from collections.abc import Iterator

from bench.results import Figure, Results
from bench.stats import spread

THOUSAND, MILLION = 1_000, 1_000_000
HEADER = ("workload", "figure", "goal", "ratio", "min..max", "middle half", "met")


def number(value: float) -> str:
    """Format a figure with three significant digits."""
    size = abs(value)
    if size >= MILLION:
        return f"{value / MILLION:.2f} M"
    if size >= 100 * THOUSAND:
        return f"{value / THOUSAND:.0f} k"
    if size >= 10 * THOUSAND:
        return f"{value / THOUSAND:.1f} k"
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def table(results: Results) -> str:
    """Aligned plain text."""
    ours, theirs = results.contestants
    header = (*HEADER[:2], ours, theirs, *HEADER[2:])
    rows = [header, *_rows(results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)


def markdown_table(results: Results) -> list[str]:
    """The same table in Markdown."""
    ours, theirs = (name.capitalize() for name in results.contestants)
    header = (*HEADER[:2], ours, theirs, *HEADER[2:])
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row) + " |" for row in _rows(results)),
    ]


def document(
    results: Results, *, chart_name: str, data_name: str, pipelines: str = "", notes: str = ""
) -> str:
    """Return the Markdown page; the chart and the raw data are separate files beside it.

    `pipelines` is a complete section. `notes` is hand-written Markdown about these figures; it is
    appended unchanged.
    """
    return "\n".join(
        [
            "# Benchmarks",
            "",
            f"Headrace and Apache Kafka {results.machine.kafka} on the same machine.",
            "`script/bench --publish` runs the measurements and writes this page. See",
            "[cluster benchmarks](benchmarks-cluster.md) for clusters of three brokers.",
            "",
            f"![Each figure compared with Apache Kafka]({chart_name})",
            "",
            *markdown_table(results),
            "",
            "Each row gives both medians, and the ratio Headrace / Kafka within a pair of runs:",
            "its median, its extremes, and its middle half (between the quartiles). For rates, a",
            "ratio above 1 is better; for times, memory and CPU, a ratio below 1 is better.",
            *verdict(results),
            f"Raw data: [{data_name}]({data_name}).",
            "",
            "## Machine and software",
            "",
            *_machine(results),
            "",
            "## Method",
            "",
            *_method(results),
            "",
            "## Noise",
            "",
            *_noise(results),
            "",
            *((pipelines,) if pipelines else ()),
            *(("## Notes on these figures", "", notes.strip(), "") if notes.strip() else ()),
        ]
    )


def _rows(results: Results) -> Iterator[tuple[str, ...]]:
    for workload in results.workloads:
        for index, figure in enumerate(workload.figures):
            yield ("" if index else workload.title, *_cells(figure))


def _cells(figure: Figure) -> tuple[str, ...]:
    metric, ratio = figure.metric, figure.ratio
    return (
        metric.title,
        f"{number(spread(figure.ours).median)} {metric.unit}",
        f"{number(spread(figure.theirs).median)} {metric.unit}" if figure.theirs else "-",
        _goal(figure),
        f"{ratio.median:.2f}x" if ratio else "-",
        f"{ratio.low:.2f}..{ratio.high:.2f}" if ratio else "-",
        f"{ratio.lower_quartile:.2f}..{ratio.upper_quartile:.2f}" if ratio else "-",
        {True: "yes", False: "NO", None: ""}[figure.met],
    )


def _goal(figure: Figure) -> str:
    goal = figure.metric.goal
    if goal is None:
        return ""
    sign = ">=" if figure.metric.better == "higher" else "<="
    unit = "x" if goal.of == "ratio" else f" {figure.metric.unit}"
    return f"{sign} {goal.bound:g}{unit}"


def verdict(results: Results) -> list[str]:
    """Count the goals that are met, and list the missed ones."""
    judged = [
        (f"{workload.title}: {figure.metric.title}", figure.met)
        for workload in results.workloads
        for figure in workload.figures
        if figure.met is not None
    ]
    missed = [f"- missed: {name}" for name, met in judged if not met]
    return [
        "",
        f"Goals met: {len(judged) - len(missed)} of {len(judged)}.",
        *(["", *missed] if missed else []),
        "",
    ]


def _machine(results: Results) -> list[str]:
    machine = results.machine
    return [
        f"- {results.date}, {machine.cores} cores of {machine.processor},",
        f"  {machine.memory_gb:g} GB of memory, {machine.system}, {machine.file_system}.",
        f"- Apache Kafka {machine.kafka} on Java {machine.java}: one KRaft node, 1 GB heap, the",
        "  JVM flags of Kafka's own start script, log level WARN.",
        f"- Headrace on Python {machine.python}, with default settings.",
        "- Both use `log.segment.delete.delay.ms=1000`, so that data of earlier runs does not",
        "  accumulate on disk.",
        f"- Load generator: `bench/load` in C, with librdkafka {machine.librdkafka}. Clients and",
        "  brokers share the cores and the loopback interface.",
    ]


def _method(results: Results) -> list[str]:
    pairs = int(results.settings.get("pairs", 0))
    return [
        f"- {pairs} pairs of runs per workload, interleaved (A B, B A, ...). Exceptions: 4 pairs",
        "  for 10,000 partitions, where a pair takes two minutes, 5 for heartbeats and 3 for",
        "  compaction.",
        "- Throughput and latency: six partitions. Both brokers stay up and are warmed up first.",
        "  Each run uses a new topic, except that consume runs read the same messages every time.",
        "- Offset commits: `bench/load` with its own sockets; 50 connections with one partition",
        "  each, one request in flight per connection. With 50 groups, each connection is the only",
        "  member of its group; with one group, all connections commit without being members.",
        "- Heartbeats: 5,000 connections, each with a heartbeat every 3 s. The CPU figure excludes",
        "  joining.",
        "- Rebalance: from the last JoinGroup request to the last SyncGroup response, in an",
        "  existing group. It excludes the initial rebalance delay.",
        "- Transactions: one librdkafka producer; 100 records of 100 B and a commit, one",
        "  transaction after the other. The read_committed workload reads a million records that",
        "  were written in transactions of 1,000.",
        "- Compaction: 3 million records with 100,000 keys in segments of 20 MB, from the moment",
        "  the log may be cleaned until the checkpoint is written; `log.cleaner.backoff.ms=100`.",
        "- pytest fixture: the set-up and tear-down time that pytest reports. Kafka has no",
        "  fixture; its figures are the start from exec and the deletion of one topic.",
        "- Client CPU: where the client uses a whole core, the client limits the rate, and the",
        "  brokers' CPU is the figure that distinguishes them.",
        "- Broker CPU: all threads and child processes, from /proc, before and after the run.",
        "- Latency: one producer sends at a fixed rate and never waits for a response. The first",
        "  second is excluded.",
        "- Start-up, memory and partitions: a new broker process and data directory for each run.",
        "  Formatting Kafka's storage is not timed. Start-up uses `headrace up --ephemeral`.",
        f"- Long log: {results.settings.get('big_log_gb', 0):g} GB in one partition.",
        "- Both brokers acknowledge from the page cache, which is the default of both: neither",
        "  syncs to disk before acknowledging.",
    ]


def _noise(results: Results) -> list[str]:
    shares = [
        (spread(figure.ours).interquartile_share, spread(figure.theirs).interquartile_share)
        for workload in results.workloads
        for figure in workload.figures
        if figure.metric.unit == "msg/s" and len(figure.ours) > 1
    ]
    loads = [workload.load_average for workload in results.workloads] or [0.0]
    lines = [
        "A ratio whose middle half includes 1 is a draw. `script/bench --peers kafka kafka`",
        "compares Kafka with itself and shows the noise of this method.",
        f"The load average before a workload was {min(loads):g} to {max(loads):g}; it includes the",
        "benchmark's own earlier runs.",
    ]
    if shares:
        ours = statistics.median(share for share, _ in shares)
        theirs = statistics.median(share for _, share in shares)
        lines.append(
            f"The middle half of one broker's own rates spans {ours:.0%} of its median for"
            f" {results.contestants[0].capitalize()} and {theirs:.0%} for"
            f" {results.contestants[1].capitalize()} (median over all workloads)."
        )
    return lines
