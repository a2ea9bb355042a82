"""The pipeline workloads, with their goals."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import process
from bench.pipelines import latency, orders
from bench.pipelines.rounds import (
    OURS,
    Rate,
    Run,
    Sample,
    own_figure,
    rate_figures,
    run_rounds,
)
from bench.pipelines.stage import Stage
from bench.results import Figure
from bench.workload import Goal, Metric

SMALL, LARGE = 100, 1000
WARM_UPS = 3
"""Rounds at the start of a workload that do not count.

The first runs of a session are slow, because a JVM compiles only frequent code.
"""
BATCH = Rate("batch", "batch", 1.2)
STREAM = Rate("stream", "streaming", 1.0)
TABLE = Rate("json", "to Parquet", 1.5)
DECODE_GOAL, FIRST_CALL_GOAL_S, LATENCY_GOAL_S = 3_000_000, 1.0, 2.0
MEMORY_GROWTH_GOAL = 1.25
DECODING = Path(__file__).parent / "decoding.py"
DECODE_TIMEOUT_S = 60
LATENCY_RATE, LATENCY_S = 1000, 20.0
MEMORY_STEPS = (2, 8, 16)
"""In units of 100 MB: the shortest fills the memory that a worker may use."""
MB = MILLION = 1_000_000
WORKER = "pyspark.worker"
SHAPED = {"select": orders.SELECT, "expect": orders.EXPECT}
FOLDERS = {"partition_by": "country"}


class WrongResultError(Exception):
    """A side did not deliver the contents of the topic."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Figures that are measured together; `measure` gets the number of rounds."""

    name: str
    title: str
    measure: Callable[[Stage, int], tuple[Figure, ...]]


def catalogue(*, scale: float) -> list[Workload]:
    """`scale` reduces the topics for a quick run; published figures use 1."""

    def many(count: int) -> int:
        return max(1000, int(count * scale))

    small, large = many(4_000_000), many(1_000_000)
    return [
        _noop("batch-100b", "Topic to noop, 100 B", BATCH, small, SMALL),
        _noop("stream-100b", "Topic to noop, 100 B", STREAM, small, SMALL),
        _noop("batch-1kb", "Topic to noop, 1 kB", BATCH, large, LARGE),
        _noop("stream-1kb", "Topic to noop, 1 kB", STREAM, large, LARGE),
        Workload("json-delta", "JSON topic to Delta", _table("json-delta", many(1_000_000))),
        Workload(
            "json-sql-delta",
            "JSON topic, SQL and a rule, to Delta",
            _shaped("json-sql-delta", many(1_000_000), shape=SHAPED),
        ),
        Workload(
            "json-sql-folders",
            "JSON topic, SQL and a rule, partitioned",
            _shaped("json-sql-folders", many(1_000_000), shape={**SHAPED, **FOLDERS}),
        ),
        Workload("decode", "Decoding, one core", _decode),
        Workload("freshness", "Pipeline at 1,000 records/s", _latency),
        Workload("worker-memory", "Memory of a worker", _memory(many(100_000))),
    ]


def _noop(name: str, title: str, rate: Rate, count: int, size: int) -> Workload:
    def measure(stage: Stage, rounds: int) -> tuple[Figure, ...]:
        stage.fill(name, count, size)
        run = _timed(stage, rate.key, name, count)
        try:
            return rate_figures(rate, run_rounds(run, rounds, warm_ups=WARM_UPS))
        finally:
            stage.drop(name)

    return Workload(name, title, measure)


def _timed(stage: Stage, action: str, topic: str, count: int) -> Run:
    def run(side: str) -> Sample:
        figures = stage.ask(side, action, topic)
        if figures.get("rows", count) != count:
            raise WrongResultError(f"{side} {action}: {figures['rows']:g} of {count} records")
        return _sample(f"{topic} {side}", count, figures)

    return run


def _table(topic: str, count: int) -> Callable[[Stage, int], tuple[Figure, ...]]:
    """Headrace writes bad records to a topic; the connector's side writes one table."""
    return _orders(topic, count, bad_of=orders.broken, connector_keeps_bad=True, shape={})


def _shaped(
    topic: str, count: int, *, shape: Mapping[str, str]
) -> Callable[[Stage, int], tuple[Figure, ...]]:
    """A table with SQL and a rule in between.

    Headrace sends broken records, and those that do not meet the rule, to a topic; the connector's
    side omits both.
    """

    def bad_of(count: int) -> int:
        return orders.broken(count) + orders.unexpected(count)

    return _orders(topic, count, bad_of=bad_of, connector_keeps_bad=False, shape=shape)


def _orders(
    topic: str,
    count: int,
    *,
    bad_of: Callable[[int], int],
    connector_keeps_bad: bool,
    shape: Mapping[str, str],
) -> Callable[[Stage, int], tuple[Figure, ...]]:
    """`bad_of` may take seconds, so it is called when the workload is measured."""

    def measure(stage: Stage, rounds: int) -> tuple[Figure, ...]:
        bad = bad_of(count)
        landed = {"rows": count - bad, "dead_letters": bad}
        connector_rows = count if connector_keeps_bad else count - bad

        def run(side: str) -> Sample:
            figures = stage.ask(side, "json", topic, schema=orders.SCHEMA, **shape)
            expected = landed if side == OURS else {"rows": connector_rows}
            if any(figures[name] != value for name, value in expected.items()):
                raise WrongResultError(f"{side}: {figures}, but {count} records, {bad} of them bad")
            return _sample(f"{topic} {side}", count, figures)

        stage.fill_orders(topic, count)
        try:
            return rate_figures(TABLE, run_rounds(run, rounds, warm_ups=WARM_UPS))
        finally:
            stage.drop(topic)

    return measure


def _decode(_stage: Stage, rounds: int) -> tuple[Figure, ...]:
    small = [_decoded(SMALL) for _ in range(rounds)]
    large = [_decoded(LARGE) for _ in range(rounds)]
    first = Metric("first", "first call", "s", "lower", Goal("value", FIRST_CALL_GOAL_S))
    rate = Metric("100b", "100 B", "rec/s", "higher", Goal("value", DECODE_GOAL))
    return (
        own_figure(rate, [each["rate"] for each in small]),
        own_figure(Metric("1kb", "1 kB", "rec/s", "higher"), [each["rate"] for each in large]),
        own_figure(first, [each["first_call_s"] for each in small + large]),
    )


def _decoded(size: int) -> Mapping[str, float]:
    done = subprocess.run(
        [sys.executable, str(DECODING), str(size)],
        capture_output=True,
        text=True,
        timeout=DECODE_TIMEOUT_S,
        check=True,
    )
    figures: Mapping[str, float] = json.loads(done.stdout)
    _said(f"decode {size} B, first call {figures['first_call_s']:.2f} s", figures["rate"])
    return figures


def _latency(stage: Stage, _rounds: int) -> tuple[Figure, ...]:
    """One long run: its records are the samples."""
    figures = latency.measure(stage, LATENCY_RATE, LATENCY_S)
    goal = Goal("value", LATENCY_GOAL_S)
    return (
        own_figure(Metric("p50", "age, median", "s", "lower", goal), [figures["median_s"]]),
        own_figure(Metric("p99", "age, p99", "s", "lower"), [figures["p99_s"]]),
    )


def _memory(count: int) -> Callable[[Stage, int], tuple[Figure, ...]]:
    """One partition of growing length, read completely; the worker's peak memory after each."""

    def measure(stage: Stage, _rounds: int) -> tuple[Figure, ...]:
        peaks = []
        for step in MEMORY_STEPS:
            topic = f"memory-{step}"
            stage.fill(topic, count * step, LARGE, partitions=1)
            stage.ask(OURS, "batch", topic)
            peaks.append(max(_worker_peaks(stage.headrace_pid)) / MB)
            stage.drop(topic)
        growth = Metric(
            "growth", "peak, longest / shortest", "x", "lower", Goal("value", MEMORY_GROWTH_GOAL)
        )
        return (
            *(
                own_figure(
                    Metric(
                        f"peak-{step}",
                        f"peak, {count * step * LARGE / MB:,.0f} MB to read",
                        "MB",
                        "lower",
                    ),
                    [peak],
                )
                for step, peak in zip(MEMORY_STEPS, peaks, strict=True)
            ),
            own_figure(growth, [peaks[-1] / peaks[0]]),
        )

    return measure


def _worker_peaks(session: int) -> Iterator[int]:
    for pid in process.tree(session):
        try:
            if WORKER in process.command_line(pid):
                yield process.peak_bytes(pid)
        except (FileNotFoundError, ProcessLookupError, StopIteration):
            continue


def _sample(what: str, count: int, figures: Mapping[str, float]) -> Sample:
    sample = Sample(count / figures["seconds"], figures["cpu_s"] / count * MILLION)
    _said(f"{what}: {sample.cpu_s_per_million:.2f} s of CPU a million", sample.rate)
    return sample


def _said(what: str, rate: float) -> None:
    print(f"{what}, {rate / 1000:,.0f} k/s", file=sys.stderr, flush=True)
