"""Several seeds one after the other, in one process."""

from collections.abc import Sequence

from headrace.testing.simulation.planted import planted
from headrace.testing.simulation.scenario import Outcome, run


def run_some(seeds: Sequence[int], seconds: float, bug: str | None) -> list[Outcome]:
    """How they end; with a planted bug, up to the one that shows it."""
    outcomes = []
    with planted(bug):
        for seed in seeds:
            outcomes.append(run(seed, seconds))
            if bug is not None and outcomes[-1].violation is not None:
                break
    return outcomes
