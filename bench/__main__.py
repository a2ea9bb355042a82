"""`python -m bench`: runs the workloads in pairs and reports."""

import argparse
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NoReturn

from bench import artifacts, machine, report, results
from bench.authorizer import command as authorizer
from bench.clusters import command as clusters
from bench.load_generator import LoadError, LoadGenerator
from bench.operate import command as operate
from bench.pairing import Around, run_pairs
from bench.peers.headrace import Headrace
from bench.peers.kafka import Kafka
from bench.peers.peer import Peer, PeerError
from bench.pipelines import command as pipelines
from bench.profiling import find_py_spy, profiler
from bench.publication import publish
from bench.security import OtherCipherError, Security
from bench.warmup import warm_up
from bench.workload import Contestant, Sample, Workload
from bench.workloads.catalogue import MAX_PAIRS, catalogue, secured_catalogue
from bench.workloads.long_log import DiskSpaceError

ROOT = Path(__file__).parent.parent
DEFAULT_PAIRS, QUICK_PAIRS = 7, 2
QUICK_SCALE, QUICK_LOG_GB = 0.1, 0.5
PEERS = ("headrace", "kafka")


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, leave)
    raise_file_limit()
    if given[:1] == ["authorizer"]:
        return authorizer.main(given[1:])
    if given[:1] == ["operate"]:
        return operate.main(given[1:])
    if given[:1] == ["cluster"]:
        return clusters.main(given[1:])
    if given[:1] == ["pipeline"]:
        return pipelines.main(given[1:])
    options = parse(given)
    try:
        if options.merge:
            measured = results.merge(results.load(path) for path in options.merge)
            complete = True
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
        refusal = why_not_publish(measured, complete=complete, without=options.without)
        if refusal:
            print(f"Not published: {refusal}", file=sys.stderr)
            return 1
        publish(ROOT / "docs", brokers=measured)
    return 0 if complete else 1


def leave(_signal: int, _frame: object) -> NoReturn:
    """Unwinds on SIGTERM, so that brokers stop and data is removed; ignores a second SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def why_not_publish(
    measured: results.Results, *, complete: bool, without: Sequence[str] = ()
) -> str:
    """The reasons why the page would mislead a reader; empty if there are none.

    The page's notes must say why it is `without` some workloads.
    """
    expected = {workload.name for workload in catalogue(scale=1, big_log_gb=1)} - set(without)
    absent = sorted(expected - {workload.name for workload in measured.workloads})
    if measured.contestants != PEERS:
        return "the page compares headrace with kafka."
    if measured.settings["scale"] != 1 or measured.settings["pairs"] < DEFAULT_PAIRS:
        return f"the page takes full-sized runs of at least {DEFAULT_PAIRS} pairs."
    if absent or not complete:
        return f"these workloads have no result: {', '.join(absent)}."
    return ""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    plain = catalogue(scale=1, big_log_gb=1)
    names = [workload.name for workload in (*plain, *secured_catalogue(scale=1))]
    parser = argparse.ArgumentParser(
        prog="script/bench",
        description=__doc__,
        epilog="Clusters of three brokers: script/bench cluster --help. Pipelines on Spark: "
        "script/bench pipeline --help. Access control: script/bench authorizer --help. "
        "Metrics: script/bench operate --help.",
    )
    parser.add_argument("--pairs", type=int, help=f"pairs of runs (default {DEFAULT_PAIRS})")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, two pairs")
    parser.add_argument(
        "--secure", action="store_true", help="TLS and SASL on both sides, with its own workloads"
    )
    parser.add_argument("--peers", nargs=2, choices=PEERS, default=PEERS, metavar=("A", "B"))
    parser.add_argument("--big-log-gb", type=float, help="size of the long log (default 10)")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), help="where data goes")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench" / "results.json")
    parser.add_argument("--publish", action="store_true", help="write docs/benchmarks.*")
    parser.add_argument(
        "--without",
        nargs="+",
        choices=names,
        default=(),
        metavar="NAME",
        help="publish though these have no result; say why in docs/benchmarks-notes.md",
    )
    parser.add_argument("--merge", nargs="+", type=Path, metavar="JSON", help="report these runs")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="flame graphs, with py-spy")
    options = parser.parse_args(arguments)
    unfit = set(options.only or ()) & {
        workload.name for workload in (plain if options.secure else secured_catalogue(scale=1))
    }
    if unfit:
        parser.error(f"with{'' if options.secure else 'out'} --secure: {', '.join(sorted(unfit))}")
    options.pairs = options.pairs or (QUICK_PAIRS if options.quick else DEFAULT_PAIRS)
    options.big_log_gb = options.big_log_gb or (QUICK_LOG_GB if options.quick else 10.0)
    if options.profile and find_py_spy() is None:
        parser.error("--profile needs py-spy: install it into .venv or on the PATH")
    return options


def chosen(options: argparse.Namespace, scale: float) -> list[Workload]:
    """The workloads of this run."""
    every = (
        secured_catalogue(scale=scale)
        if options.secure
        else catalogue(scale=scale, big_log_gb=options.big_log_gb)
    )
    return [each for each in every if not options.only or each.name in options.only]


def measure(options: argparse.Namespace) -> tuple[results.Results, bool]:
    """Runs the chosen workloads; a failure is printed at once and left out of the results."""
    scale = QUICK_SCALE if options.quick else 1.0
    workloads = chosen(options, scale)
    described = machine.describe(options.work)
    done: list[results.WorkloadResult] = []

    def so_far() -> results.Results:
        return results.Results(
            machine=described,
            date=datetime.now(UTC).date().isoformat(),
            contestants=(options.peers[0], options.peers[1]),
            settings={
                "pairs": options.pairs,
                "scale": scale,
                "big_log_gb": options.big_log_gb,
            },
            workloads=tuple(done),
        )

    with contest(options.peers, options.work, secure=options.secure) as contestants:
        for workload in workloads:
            load_average = round(os.getloadavg()[0], 2)
            try:
                pairs = run_pairs(
                    workload,
                    contestants,
                    min(options.pairs, MAX_PAIRS.get(workload.name, options.pairs)),
                    around=surrounding(options.profile),
                    on_sample=say_sample,
                )
            except (LoadError, PeerError, DiskSpaceError, OtherCipherError) as problem:
                print(f"{workload.name}: {problem}", file=sys.stderr)
                continue
            done.append(results.result_of(workload, pairs, load_average))
            results.save(so_far(), options.json)
    return so_far(), len(done) == len(workloads)


@contextmanager
def contest(
    names: Sequence[str], work: Path, *, secure: bool = False
) -> Iterator[tuple[Contestant, Contestant]]:
    """Both contestants under one scratch directory, which is removed afterwards."""
    load = LoadGenerator(artifacts.load_generator())
    home = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=work))
    security = Security.create(home / "security") if secure else None
    first, second = (
        Contestant(name, home / str(index), partial(build, name, load, security), warm_up)
        for index, name in enumerate(names)
    )
    try:
        yield first, second
    finally:
        first.close()
        second.close()
        shutil.rmtree(home, ignore_errors=True)


def build(name: str, load: LoadGenerator, security: Security | None, home: Path) -> Peer:
    if name == "headrace":
        return Headrace(home, load, security)
    return Kafka(home, load, artifacts.kafka_jars(), security)


def surrounding(directory: Path | None) -> Around:
    py_spy = find_py_spy()
    if directory is not None and py_spy is not None:
        return profiler(py_spy, directory)
    return lambda _workload, _contestant: nullcontext()


def say_sample(workload: Workload, contestant: str, sample: Sample) -> None:
    figures = ", ".join(
        f"{metric.title} {report.number(sample[metric.key])} {metric.unit}"
        for metric in workload.metrics
    )
    print(f"{time.strftime('%H:%M:%S')} {workload.name} {contestant}: {figures}", file=sys.stderr)


def raise_file_limit() -> None:
    """Raises the limit of open files: Kafka needs one per partition; children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
