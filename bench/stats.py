"""Medians and spreads of few, noisy samples. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of samples. With one sample all five figures are that sample."""

    count: int
    low: float
    lower_quartile: float
    median: float
    upper_quartile: float
    high: float

    @property
    def interquartile_share(self) -> float:
        """The interquartile range as a share of the median: the noise of one figure."""
        if not self.median:
            return 0.0
        return (self.upper_quartile - self.lower_quartile) / abs(self.median)


def spread(samples: Sequence[float]) -> Spread:
    if not samples:
        raise ValueError("a spread needs at least one sample")
    if len(samples) == 1:
        only = samples[0]
        return Spread(1, only, only, only, only, only)
    first, middle, third = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(len(samples), min(samples), first, middle, third, max(samples))


def pair_ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """The ratio within each pair, whose two runs share the same state of the machine.

    A pair whose denominator is zero (a CPU figure below the clock's tick) has no ratio.
    """
    return [a / b for a, b in zip(ours, theirs, strict=True) if b]
