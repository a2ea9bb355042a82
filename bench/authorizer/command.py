"""`script/bench authorizer`: what access control costs with 10,000 ACLs.

First, the CPU time of one decision and of one change of the ACLs. Then whole brokers, in
interleaved pairs of runs: one with an authorizer and the ACLs beside one without. The table has the
ratio of each figure within a pair of runs, and its spread.

--brokers compares two others: `quotas` measures all clients against quotas that they do not reach,
and `baseline` is the broker of another checkout, without an authorizer.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from bench import artifacts, machine, report, results
from bench.authorizer import decisions
from bench.authorizer.comparison import BROKERS, contest, workloads
from bench.load_generator import LoadError
from bench.pairing import run_pairs
from bench.peers.peer import PeerError
from bench.workload import Sample, Workload

ROOT = Path(__file__).parents[2]
DEFAULT_PAIRS, QUICK_PAIRS = 7, 2
QUICK_SCALE = 0.1


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    if not options.only or "decisions" in options.only:
        print(decisions.report(options.acls), flush=True)
    chosen = [
        each
        for each in workloads(QUICK_SCALE if options.quick else 1)
        if not options.only or each.name in options.only
    ]
    if not chosen:
        return 0
    try:
        with artifacts.alone():
            measured = measure(options, chosen)
    except (artifacts.MissingToolError, artifacts.BusyError, LoadError, PeerError) as problem:
        print(problem, file=sys.stderr)
        return 1
    print(report.table(measured))
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    names = ["decisions", *(workload.name for workload in workloads(1))]
    parser = argparse.ArgumentParser(
        prog="script/bench authorizer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--acls", type=int, default=10_000, help="number of ACLs (default 10000)")
    parser.add_argument("--pairs", type=int, help=f"pairs of runs (default {DEFAULT_PAIRS})")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, two pairs")
    parser.add_argument(
        "--brokers",
        nargs=2,
        choices=BROKERS,
        default=("authorizer", "none"),
        metavar=("A", "B"),
        help=f"the two sides, of {', '.join(BROKERS)} (default: authorizer none)",
    )
    parser.add_argument(
        "--baseline", type=Path, metavar="DIR", help="a checkout with a .venv, for `baseline`"
    )
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), help="where data goes")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench" / "authorizer.json")
    options = parser.parse_args(arguments)
    options.pairs = options.pairs or (QUICK_PAIRS if options.quick else DEFAULT_PAIRS)
    if ("baseline" in options.brokers) != (options.baseline is not None):
        parser.error("--baseline DIR and the broker `baseline` belong together")
    return options


def measure(options: argparse.Namespace, chosen: Sequence[Workload]) -> results.Results:
    brokers = (options.brokers[0], options.brokers[1])
    done: list[results.WorkloadResult] = []
    with contest(
        brokers, options.work, acl_count=options.acls, baseline=options.baseline
    ) as contestants:
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
        brokers,
        {"pairs": options.pairs, "acls": options.acls},
        tuple(done),
    )
    results.save(measured, options.json)
    return measured


def _say_sample(workload: Workload, contestant: str, sample: Sample) -> None:
    figures = ", ".join(
        f"{metric.title} {report.number(sample[metric.key])} {metric.unit}"
        for metric in workload.metrics
    )
    print(f"{workload.name} {contestant}: {figures}", file=sys.stderr)
