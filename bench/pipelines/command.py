"""`script/bench pipeline`: pipelines on Spark beside Spark's own Kafka source."""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import artifacts, machine, report, results
from bench.peers.peer import PeerError
from bench.pipelines.latency import LatencyError
from bench.pipelines.side import SideError
from bench.pipelines.stage import Stage, stage
from bench.pipelines.workloads import Workload, WrongResultError, catalogue
from bench.publication import publish

ROOT = Path(__file__).parents[2]
DEFAULT_ROUNDS, QUICK_ROUNDS = 5, 1
QUICK_SCALE = 0.05
CONTESTANTS = ("headrace", "connector")
BROKERS = ("headrace", "kafka")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    names = [workload.name for workload in catalogue(scale=1)]
    parser = argparse.ArgumentParser(prog="script/bench pipeline", description=__doc__)
    parser.add_argument("--rounds", type=int, help=f"rounds of runs (default {DEFAULT_ROUNDS})")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="small topics, one round")
    parser.add_argument("--broker", choices=BROKERS, default="headrace", help="who is read from")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), help="where data goes")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench" / "pipeline.json")
    parser.add_argument("--publish", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="JSON", help="report these runs")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else DEFAULT_ROUNDS)
    return options


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    try:
        if options.merge:
            measured, complete = results.merge(map(results.load, options.merge)), True
        else:
            with artifacts.alone():
                measured, complete = measure(options)
    except (
        artifacts.MissingToolError,
        artifacts.BusyError,
        PeerError,
        results.MixedRunsError,
    ) as problem:
        print(problem, file=sys.stderr)
        return 1
    print(report.table(measured))
    if options.publish:
        refusal = why_not_publish(measured, complete=complete)
        if refusal:
            print(f"Not published: {refusal}", file=sys.stderr)
            return 1
        publish(ROOT / "docs", pipelines=measured)
    return 0 if complete else 1


def why_not_publish(measured: results.Results, *, complete: bool) -> str:
    """The reasons why the page would mislead a reader; empty if there are none."""
    expected = {workload.name for workload in catalogue(scale=1)}
    absent = sorted(expected - {workload.name for workload in measured.workloads})
    if measured.settings["scale"] != 1 or measured.settings["rounds"] < DEFAULT_ROUNDS:
        return f"the page takes full-sized runs of at least {DEFAULT_ROUNDS} rounds."
    if measured.settings["on_kafka"]:
        return "the page shows what was read from Headrace."
    if absent or not complete:
        return f"these workloads have no result: {', '.join(absent)}."
    return ""


def measure(options: argparse.Namespace) -> tuple[results.Results, bool]:
    """Runs the chosen workloads; a failure is printed at once and left out of the results."""
    scale = QUICK_SCALE if options.quick else 1.0
    chosen = [
        workload
        for workload in catalogue(scale=scale)
        if not options.only or workload.name in options.only
    ]
    described = machine.describe(options.work)
    done: list[results.WorkloadResult] = []

    def so_far() -> results.Results:
        return results.Results(
            machine=described,
            date=datetime.now(UTC).date().isoformat(),
            contestants=CONTESTANTS,
            settings={
                "rounds": options.rounds,
                "scale": scale,
                "on_kafka": float(options.broker == "kafka"),
            },
            workloads=tuple(done),
        )

    with stage(options.broker, options.work) as ready:
        for workload in chosen:
            result = measured_one(workload, ready, options.rounds)
            if result is not None:
                done.append(result)
                results.save(so_far(), options.json)
    return so_far(), len(done) == len(chosen)


def measured_one(workload: Workload, on: Stage, rounds: int) -> results.WorkloadResult | None:
    load_average = round(os.getloadavg()[0], 2)
    try:
        figures = workload.measure(on, rounds)
    except (SideError, PeerError, LatencyError, WrongResultError) as problem:
        print(f"{workload.name}: {problem}", file=sys.stderr)
        return None
    return results.WorkloadResult(workload.name, workload.title, figures, load_average)
