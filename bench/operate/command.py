"""`script/bench operate`: what the HTTP port and its metrics cost.

`scrape` measures a scrape of a broker with 10,000 partitions, 1,000 topics and 200 groups.
`latency` compares such a broker while it is scraped each second with one that is not. The other
workloads compare a broker with the port, which counts and times every request, with one without it,
in interleaved pairs of runs.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from bench import artifacts, machine, report, results
from bench.authorizer.comparison import workloads as throughput_workloads
from bench.load_generator import LoadError, LoadGenerator
from bench.operate import scrape
from bench.operate.brokers import Filled, Scraped, WithMetrics
from bench.pairing import run_pairs
from bench.peers.headrace import Headrace
from bench.peers.peer import PeerError
from bench.warmup import warm_up
from bench.workload import Contestant, Goal, Sample, Workload
from bench.workloads.latency import METRICS, Latency
from bench.workloads.startup import Startup

ROOT = Path(__file__).parents[2]
DEFAULT_PAIRS, QUICK_PAIRS = 7, 2
QUICK_SCALE = 0.1
PACED_RECORDS, PACED_RATE = 10_000, 500
LATENCY_GOAL: Final = 1.2
"""The p99 of a broker that is scraped may be larger by this factor."""

Sides = tuple[type[Headrace], type[Headrace]]


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    scale = QUICK_SCALE if options.quick else 1
    try:
        with artifacts.alone():
            if not options.only or "scrape" in options.only:
                print(scrape.report(options.work), flush=True)
            for sides, workloads in comparisons(scale):
                chosen = [
                    each for each in workloads if not options.only or each.name in options.only
                ]
                if chosen:
                    print(report.table(measure(options, sides, chosen)), flush=True)
    except (artifacts.MissingToolError, artifacts.BusyError, LoadError, PeerError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def comparisons(scale: float) -> list[tuple[Sides, list[Workload]]]:
    """The two sides of each comparison, and its workloads."""
    goal = Goal("ratio", LATENCY_GOAL)
    metrics = tuple(replace(each, goal=goal if each.goal else None) for each in METRICS)
    paced = max(1000, int(PACED_RECORDS * scale))
    latency: list[Workload] = [
        Latency(
            "latency", "Produce latency at 500/s", "latency", paced, PACED_RATE, metrics=metrics
        )
    ]
    return [
        ((Scraped, Filled), latency),
        ((WithMetrics, Headrace), [*throughput_workloads(scale), Startup()]),
    ]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    names = ["scrape", *(each.name for _, workloads in comparisons(1) for each in workloads)]
    parser = argparse.ArgumentParser(
        prog="script/bench operate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pairs", type=int, help=f"pairs of runs (default {DEFAULT_PAIRS})")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, two pairs")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), help="where data goes")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench" / "operate.json")
    options = parser.parse_args(arguments)
    options.pairs = options.pairs or (QUICK_PAIRS if options.quick else DEFAULT_PAIRS)
    return options


def measure(
    options: argparse.Namespace, sides: Sides, chosen: Sequence[Workload]
) -> results.Results:
    done: list[results.WorkloadResult] = []
    with contest(sides, options.work) as contestants:
        for workload in chosen:
            load_average = round(os.getloadavg()[0], 2)
            pairs = run_pairs(
                workload,
                contestants,
                options.pairs,
                around=lambda _workload, _contestant: nullcontext(),
                on_sample=_say_sample,
            )
            done.append(results.result_of(workload, pairs, load_average))
    measured = results.Results(
        machine.describe(options.work),
        datetime.now(UTC).date().isoformat(),
        (sides[0].name, sides[1].name),
        {"pairs": options.pairs},
        tuple(done),
    )
    name = f"{options.json.stem}-{sides[0].name}{options.json.suffix}"
    results.save(measured, options.json.with_name(name))
    return measured


@contextmanager
def contest(sides: Sides, work: Path) -> Iterator[tuple[Contestant, Contestant]]:
    """Both contestants in a directory below `work`, which is removed afterwards."""
    load = LoadGenerator(artifacts.load_generator())
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=work))
    first, second = (
        Contestant(side.name, home / str(index), partial(_build, side, load), warm_up)
        for index, side in enumerate(sides)
    )
    try:
        yield first, second
    finally:
        first.close()
        second.close()
        shutil.rmtree(home, ignore_errors=True)


def _build(side: type[Headrace], load: LoadGenerator, home: Path) -> Headrace:
    return side(home, load)


def _say_sample(workload: Workload, contestant: str, sample: Sample) -> None:
    figures = ", ".join(
        f"{metric.title} {report.number(sample[metric.key])} {metric.unit}"
        for metric in workload.metrics
    )
    print(f"{workload.name} {contestant}: {figures}", file=sys.stderr)
