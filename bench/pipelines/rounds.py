"""Rounds of runs: every side once per round, in alternating order. Pure except for the runs.

Three sides: Headrace, and Spark's Kafka source tuned and at its defaults. Each round gives one
sample of each side, in the same state of the machine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.results import Figure
from bench.workload import Goal, Metric

OURS, TUNED, DEFAULTS = "headrace", "tuned", "defaults"
SIDES = (OURS, TUNED, DEFAULTS)


class Sample(NamedTuple):
    """One run of one side. A loaded machine changes the rate, but hardly the CPU time."""

    rate: float
    """Records per second, from the call to its return."""
    cpu_s_per_million: float
    """CPU seconds of the session with all its processes, per million records."""


Run = Callable[[str], Sample]
Samples = Mapping[str, Sequence[Sample]]


@dataclass(frozen=True, slots=True)
class Rate:
    """A figure in records per second, and its goal relative to the tuned connector."""

    key: str
    title: str
    goal: float


def order(number: int) -> tuple[str, ...]:
    """The order of the runs: A B C, C B A, ..."""
    return SIDES if number % 2 == 0 else SIDES[::-1]


def run_rounds(run: Run, rounds: int, *, warm_ups: int) -> Samples:
    """The results of `run` for each side, by round; warm-ups are discarded.

    The connector's two sides share a session, so Headrace's session gets one more run in each
    warm-up: both sessions start the rounds with the same number of runs.
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
    """Headrace compared with the tuned connector, which has the goal, and with its defaults."""
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
    """A figure without a counterpart."""
    return Figure(metric, tuple(samples), ())
