"""`script/chaos`: runs with random faults, with a line for each and an overall verdict."""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.peers.peer import PeerError

from chaos.faults import LASTS_S
from chaos.network import NoNamespaces, isolate
from chaos.rig import PEERS
from chaos.run import run

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "build" / "chaos"


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    alone = not options.no_namespaces
    if alone:
        try:
            isolate(arguments)
        except NoNamespaces as problem:
            print(f"No namespaces ({problem}): links and disks stay whole.", file=sys.stderr)
            alone = False
    return run_all(options, isolated=alone)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300, help="of faults in each run")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next adds one")
    parser.add_argument("--peer", choices=PEERS, default="headrace")
    parser.add_argument("--faults", nargs="+", choices=LASTS_S, metavar="KIND", help="only these")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), help="where data goes")
    parser.add_argument(
        "--no-namespaces", action="store_true", help="no network and no full disks of its own"
    )
    return parser.parse_args(arguments)


def run_all(options: argparse.Namespace, *, isolated: bool) -> int:
    failed = 0
    for seed in range(options.seed, options.seed + options.runs):
        home = Path(tempfile.mkdtemp(prefix="headrace-chaos-", dir=options.work))
        try:
            report = run(
                options.peer,
                seed,
                options.seconds,
                home / "run",
                isolated=isolated,
                only=options.faults,
                keep=options.results / f"{options.peer}-{seed}-data",
            )
        except PeerError as problem:
            print(json.dumps({"seed": seed, "passed": False, "invalid": str(problem)[-3000:]}))
            failed += 1
            continue
        finally:
            shutil.rmtree(home, ignore_errors=True)
        report.save(options.results)
        failed += not report.verdict.passed
        print(json.dumps(report.summary()), flush=True)
        for name, examples in report.verdict.bad.items():
            print(f"seed {seed}: {name}: {examples[:3]}", file=sys.stderr)
    print(f"{options.runs - failed} of {options.runs} runs passed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
