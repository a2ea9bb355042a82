"""Several seeds one after the other, in one process."""

import os
import threading
import time
from collections.abc import Sequence
from typing import Final

from headrace.testing.simulation.planted import planted
from headrace.testing.simulation.scenario import Outcome, run

WATCH_S: Final = 1.0  # between looks whether the command is still there


def end_with_parent() -> None:
    """A worker whose command was killed would compute on for nobody."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_some(seeds: Sequence[int], seconds: float, bug: str | None) -> list[Outcome]:
    """How they end; with a planted bug, up to the one that shows it."""
    outcomes = []
    with planted(bug):
        for seed in seeds:
            outcomes.append(run(seed, seconds))
            if bug is not None and outcomes[-1].violation is not None:
                break
    return outcomes
