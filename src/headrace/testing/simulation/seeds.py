"""Several seeds one after the other, in one process."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

from headrace.testing.simulation.planted import planted
from headrace.testing.simulation.scenario import Outcome, run
from headrace.testing.simulation.schedule import RunsInCircles

WATCH_S: Final = 1.0  # between looks whether the command is still there
MOST_CPU_S: Final = 120.0
"""A seed takes a few. One that takes so many is in a loop which no event ends."""

AGAIN_CPU_S: Final = 5.0  # for code that takes whatever is raised in it and goes on


def end_with_parent() -> None:
    """A worker whose command was killed would compute on for nobody."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def limited(cpu_s: float = MOST_CPU_S) -> Iterator[None]:
    """Ends a seed whose code never comes back to its loop; in the main thread only."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise RunsInCircles(f"{cpu_s:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s, AGAIN_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run_some(seeds: Sequence[int], seconds: float, bug: str | None) -> list[Outcome]:
    """How they end; with a planted bug, up to the one that shows it."""
    outcomes = []
    with planted(bug):
        for seed in seeds:
            with limited():
                outcomes.append(run(seed, seconds))
            if bug is not None and outcomes[-1].violation is not None:
                break
    return outcomes
