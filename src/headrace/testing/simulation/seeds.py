"""Runs several seeds, one after the other, in one process."""

import os
import signal
import threading
import time
from asyncio import events
from collections.abc import Sequence
from types import FrameType
from typing import Final

from headrace.testing.simulation.checks.history import Violation
from headrace.testing.simulation.planted_bugs import PLANTED, planted
from headrace.testing.simulation.scenario import NO_CIRCLES, Outcome, run
from headrace.testing.simulation.schedule import EndlessWork

WATCH_S: Final = 1.0  # between checks whether the command still runs
MOST_CPU_S: Final = 120.0
"""A seed takes a few seconds. One that takes this long is in an endless loop."""

AGAIN_CPU_S: Final = 5.0  # for code that catches the error and continues


def end_with_parent() -> None:
    """Ends this worker when the command that started it was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_limited(
    seed: int, seconds: float, cpu_s: float = MOST_CPU_S, *, guarded: bool = False
) -> Outcome:
    """The outcome of a seed, even if its code never returns to its loop. Main thread only."""
    late: list[Violation] = []

    def end(_number: int, _frame: FrameType | None) -> None:
        late.append(Violation(NO_CIRCLES, f"{cpu_s:g} s of processor time"))
        raise EndlessWork(late[0].what)

    running = events._get_running_loop()
    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s, AGAIN_CPU_S)
    try:
        outcome = run(seed, seconds, guarded=guarded)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        # A loop that was interrupted while it was entered or left is still set as running.
        events._set_running_loop(running)
    if late and outcome.violation is None:  # the code caught the error and continued
        outcome.violation = late[0]
    return outcome


def run_some(
    seeds: Sequence[int], seconds: float, bug: str | None, guarded: bool = False
) -> list[Outcome]:
    """The outcomes of the seeds; with a planted bug, up to the seed that detects it."""
    outcomes = []
    guarded = guarded or (bug is not None and PLANTED[bug].guarded)
    with planted(bug):
        for seed in seeds:
            outcomes.append(run_limited(seed, seconds, guarded=guarded))
            if bug is not None and outcomes[-1].violation is not None:
                break
    return outcomes
