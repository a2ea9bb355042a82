"""Results for people: a table for the terminal, and docs/benchmarks.md. Pure."""

import statistics
from collections.abc import Iterator

from bench.results import Figure, Results
from bench.stats import spread

THOUSAND, MILLION = 1_000, 1_000_000
HEADER = ("workload", "figure", "goal", "ratio", "min..max", "middle half", "met")


def number(value: float) -> str:
    """A figure with three digits that count."""
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
    """The same in Markdown."""
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
    """The Markdown page; the chart and the raw data lie beside it.

    `pipelines` is a section that is ready, and `notes` are what people wrote about this
    publication; they come last, as they are.
    """
    return "\n".join(
        [
            "# Benchmarks",
            "",
            f"Headrace beside Apache Kafka {results.machine.kafka} on one machine, measured by",
            "`script/bench --publish` from a checkout, which also wrote this page. Clusters have",
            "[their own](benchmarks-cluster.md).",
            "",
            f"![How many times better than Apache Kafka each figure is]({chart_name})",
            "",
            *markdown_table(results),
            "",
            "Each row gives both medians and the ratio Headrace / Kafka within a pair of runs:",
            "its median, its extremes, and its middle half (between the quartiles). For rates a",
            "ratio above 1 is better, for times, memory and CPU one below 1.",
            *verdict(results),
            f"Raw data: [{data_name}]({data_name}).",
            "",
            "## Where",
            "",
            *_machine(results),
            "",
            "## How",
            "",
            *_method(results),
            "",
            "## Noise",
            "",
            *_noise(results),
            "",
            *((pipelines,) if pipelines else ()),
            *(("## This publication", "", notes.strip(), "") if notes.strip() else ()),
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
    """How many goals are met, and which are not."""
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
        f"  {machine.memory_gb:g} GB of memory, {machine.system}, {machine.file_system}",
        f"- Apache Kafka {machine.kafka} on Java {machine.java}: one KRaft node, 1 GB of heap,",
        "  the JVM flags of its own start script, logging cut to warnings",
        f"- Headrace on Python {machine.python}, its defaults",
        "- both with `log.segment.delete.delay.ms=1000`, so that runs do not pile up on the disk",
        f"- load generator: `bench/load` in C on librdkafka {machine.librdkafka}; clients and",
        "  brokers share the cores and talk over the loopback interface",
    ]


def _method(results: Results) -> list[str]:
    pairs = int(results.settings.get("pairs", 0))
    return [
        f"- {pairs} pairs of runs a workload, interleaved (A B, B A, ...); 4 pairs of 10,000",
        "  partitions, where one takes two minutes, 5 of heartbeats and 3 of compaction.",
        "- Throughput and latency: six partitions; both brokers stay up and are warmed up first; a",
        "  new topic for each run, except that consuming reads the same messages every time.",
        "- Offset commits: `bench/load` with sockets of its own; 50 connections, the next request",
        "  when the last is answered, one partition each. With 50 groups each connection is the",
        "  only member of one; with one group all commit as strangers.",
        "- Heartbeats: 5,000 connections, a heartbeat each every 3 s; joining is not in the CPU",
        "  figure. A rebalance lasts from the last JoinGroup sent to the last SyncGroup answered,",
        "  in a group that stands; the initial delay is no part of it.",
        "- Transactions: one librdkafka producer, 100 records of 100 B and a commit, one after the",
        "  other. read_committed reads a million records that were written 1,000 a transaction.",
        "- Compaction: 3 million records with 100,000 keys in segments of 20 MB, from the moment",
        "  when the log may be cleaned to the checkpoint; `log.cleaner.backoff.ms=100`.",
        "- The fixture's time is what pytest reports as set-up and clean-up. Kafka has none: its",
        "  start from exec and the deletion of one topic stand beside it.",
        "- The client's CPU is in the table: where it fills a core, the client sets the rate,",
        "  and the broker's CPU is the figure that tells the brokers apart.",
        "- Broker CPU counts all threads and child processes, from /proc, around the run.",
        "- Latency: one producer paced by the clock, never waiting for an answer; the first second",
        "  is left out.",
        "- Start-up, memory and partitions: a new broker process and data directory every time;",
        "  formatting Kafka's storage is not timed. Start-up uses `headrace up --ephemeral`.",
        f"- The long log holds {results.settings.get('big_log_gb', 0):g} GB, one partition.",
        "- Both brokers answer from the page cache, as both do by default: neither forces the disk",
        "  before acknowledging.",
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
        "A ratio whose middle half straddles 1 is a draw. `script/bench --peers kafka kafka`",
        "compares Kafka with itself, and shows what this method makes of no difference at all.",
        f"Before a workload the load average was {min(loads):g} to {max(loads):g}; it counts the",
        "benchmark's own earlier runs too.",
    ]
    if shares:
        ours = statistics.median(share for share, _ in shares)
        theirs = statistics.median(share for _, share in shares)
        lines.append(
            f"The middle half of one broker's own rates spans {ours:.0%} of its median for"
            f" {results.contestants[0].capitalize()} and {theirs:.0%} for"
            f" {results.contestants[1].capitalize()} (median over the workloads)."
        )
    return lines
