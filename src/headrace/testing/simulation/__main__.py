"""Runs many seeds in several processes: `python -m headrace.testing.simulation --help`."""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Final

from headrace.testing.simulation.planted_bugs import PLANTED
from headrace.testing.simulation.scenario import DEFAULT_SECONDS, Outcome
from headrace.testing.simulation.seeds import end_with_parent, run_some

SEEDS: Final = 1000
PLANTED_SEEDS: Final = 200
PROCESSES: Final = 2
TRACE_LINES: Final = 200
SEEDS_PER_TASK: Final = 5


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Without this setting, the order of sets of strings differs between interpreters.
        named = sys.argv[1:] if arguments is None else list(arguments)
        os.environ["PYTHONHASHSEED"] = "0"
        command = [sys.executable, "-m", "headrace.testing.simulation", *named]
        os.execv(sys.executable, command)  # noqa: S606 - this interpreter
    if options.replay is not None:
        return _replay(options.replay, options.seconds, options.bug, guarded=options.acls)
    if options.planted:
        return _try_planted(options)
    return _try_seeds(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="script/test-sim",
        description="Simulate whole clusters on virtual time, one for each seed.",
    )
    add = parser.add_argument
    add(
        "--seeds",
        type=int,
        default=None,
        help="number of seeds (default: 1000; 200 for planted bugs)",
    )
    add("--first", type=int, default=1, help="first seed")
    add("--seconds", type=float, default=DEFAULT_SECONDS, help="simulated seconds for each seed")
    add("--processes", type=int, default=PROCESSES)
    add("--replay", type=int, metavar="SEED", help="run one seed and print the end of its trace")
    add("--acls", action="store_true", help="add a topic whose ACLs change during the run")
    add("--planted", action="store_true", help="plant bugs, one at a time; each must be detected")
    add("--bug", choices=sorted(PLANTED), help="plant only this bug; with --replay, in that seed")
    return parser


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


# --- one seed -----------------------------------------------------------------------------------


def _replay(seed: int, seconds: float, bug: str | None, *, guarded: bool) -> int:
    outcome = run_some([seed], seconds, bug, guarded)[-1]
    for line in outcome.recent[-TRACE_LINES:]:
        _say(line)
    _say(describe(outcome))
    return 0 if outcome.violation is None else 1


def describe(outcome: Outcome) -> str:
    """The outcome in one line."""
    faults = ", ".join(f"{name} {count}" for name, count in sorted(outcome.faults.items()))
    verdict = "ok" if outcome.violation is None else f"FAILED: {outcome.violation}"
    return (
        f"seed {outcome.seed}: {outcome.brokers} brokers, {outcome.profile.name.lower()}, "
        f"{outcome.acknowledged} acknowledged, {outcome.read} read, {outcome.commits} commits, "
        f"{outcome.classic_commits} of a classic group, {outcome.deliveries} deliveries, "
        f"{outcome.transactions} transactions, {outcome.denied} denied requests, "
        f"faults: {faults or 'none'}, "
        f"trace {outcome.digest}: {verdict}"
    )


# --- many seeds ---------------------------------------------------------------------------------


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=end_with_parent
    )


def _outcomes(seeds: range, seconds: float, processes: int, *, guarded: bool) -> Iterator[Outcome]:
    with _pool(processes) as pool:
        tasks = [
            pool.submit(run_some, seeds[at : at + SEEDS_PER_TASK], seconds, None, guarded)
            for at in range(0, len(seeds), SEEDS_PER_TASK)
        ]
        for task in as_completed(tasks):
            yield from task.result()


def _try_seeds(options: argparse.Namespace) -> int:
    count = options.seeds or SEEDS
    seeds = range(options.first, options.first + count)
    began = time.monotonic()
    failed = []
    acknowledged = faults = 0
    outcomes = _outcomes(seeds, options.seconds, options.processes, guarded=options.acls)
    for done, outcome in enumerate(outcomes, start=1):
        acknowledged += outcome.acknowledged
        faults += sum(outcome.faults.values())
        if outcome.violation is not None:
            failed.append(outcome.seed)
            _say(describe(outcome))
        if done % 50 == 0:
            _say(f"{done} of {count} seeds after {time.monotonic() - began:.0f} s")
    _say(
        f"{count} seeds of {options.seconds:g} simulated seconds in "
        f"{time.monotonic() - began:.0f} s: {acknowledged} records acknowledged, {faults} faults, "
        f"{len(failed)} seeds failed"
    )
    for seed in sorted(failed):
        acls = " --acls" if options.acls else ""
        _say(f"to repeat: script/test-sim --replay {seed} --seconds {options.seconds:g}{acls}")
    return 1 if failed else 0


# --- planted bugs -------------------------------------------------------------------------------


def _try_planted(options: argparse.Namespace) -> int:
    names: Iterable[str] = [options.bug] if options.bug else PLANTED
    count = options.seeds or PLANTED_SEEDS
    seeds = range(options.first, options.first + count)
    found: dict[str, Outcome] = {}
    with _pool(options.processes) as pool:
        tasks = {pool.submit(run_some, seeds, options.seconds, name): name for name in names}
        for task in as_completed(tasks):
            name = tasks[task]
            found[name] = last = task.result()[-1]
            _say(f"{name}: {last.violation or 'not caught'} (seed {last.seed})")
    _say("\n| Bug | Caught by | First seed |")
    _say("|---|---|---|")
    for name in names:
        violation = found[name].violation
        rule = violation.rule if violation is not None else f"**not caught in {count} seeds**"
        seed = str(found[name].seed) if violation is not None else "-"
        _say(f"| {PLANTED[name].title} | {rule} | {seed} |")
    return 0 if all(each.violation for each in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
