"""Rounds of runs: every side once, in turns; the next round goes the other way. Pure but for runs.

Three sides: Headrace, and Spark's Kafka source tuned and at its defaults. Each round gives one
sample of each, which met the same state of the machine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.results import Figure
from bench.workload import Goal, Metric

OURS, TUNED, DEFAULTS = "headrace", "tuned", "defaults"
SIDES = (OURS, TUNED, DEFAULTS)


class Sample(NamedTuple):
    """One run of one side. A loaded machine changes the rate, and the processor time hardly."""

    rate: float
    """Records a second, from the call to its return."""
    cpu_s_per_million: float
    """Of the session with all its processes, for a million records."""


Run = Callable[[str], Sample]
Samples = Mapping[str, Sequence[Sample]]


@dataclass(frozen=True, slots=True)
class Rate:
    """A figure in records a second, and how it must compare with the tuned connector."""

    key: str
    title: str
    goal: float


def order(number: int) -> tuple[str, ...]:
    """Who runs when: A B C, C B A, ..."""
    return SIDES if number % 2 == 0 else SIDES[::-1]


def run_rounds(run: Run, rounds: int, *, warm_ups: int) -> Samples:
    """What `run` returned for each side, round by round; warm-ups are not kept.

    The connector's two sides share a session, so Headrace's gets a run more in each warm-up: both
    sessions begin the rounds with as many runs behind them.
    """
    samples: dict[str, list[Sample]] = {side: [] for side in SIDES}
    for number in range(-warm_ups, rounds):
        for side in order(number):
            sample = run(side)
            if number >= 0:
                samples[side].append(sample)
        if number < 0:
            run(OURS)
    return samples


def rate_figures(rate: Rate, samples: Samples) -> tuple[Figure, ...]:
    """Headrace beside the tuned connector, which is judged, and beside its defaults."""
    tuned = Metric(rate.key, f"{rate.title}, tuned", "rec/s", "higher", Goal("ratio", rate.goal))
    defaults = Metric(f"{rate.key}_defaults", f"{rate.title}, defaults", "rec/s", "higher")
    cpu = Metric(f"{rate.key}_cpu", "CPU per million, tuned", "s", "lower")

    def rates(side: str) -> tuple[float, ...]:
        return tuple(sample.rate for sample in samples[side])

    def costs(side: str) -> tuple[float, ...]:
        return tuple(sample.cpu_s_per_million for sample in samples[side])

    return (
        Figure(tuned, rates(OURS), rates(TUNED)),
        Figure(defaults, rates(OURS), rates(DEFAULTS)),
        Figure(cpu, costs(OURS), costs(TUNED)),
    )


def own_figure(metric: Metric, samples: Sequence[float]) -> Figure:
    """A figure that has no peer."""
    return Figure(metric, tuple(samples), ())
