"""Measures a rate over the last few windows, as Kafka's quotas do. Pure.

Kafka's rule (Rate, SampledStat): a window begins at the first value after the one before it has
ended, and it is dropped when its last value is as old as all windows together. The rate is the sum
of the values divided by the time since the oldest window began. All windows but the current one
count as complete, even if the measurement began a moment ago: otherwise the first value would look
like an endless rate.
"""

from typing import Final

MIN_ELAPSED_S: Final = 0.001
"""With a single window, the first value would otherwise be divided by zero."""


class _Window:
    """The values that were recorded within one window."""

    __slots__ = ("began_s", "last_s", "total")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.last_s = began_s
        self.total = 0.0


class RateMeter:
    """The rate of one quota's user. `windows` windows of `window_s` seconds are measured."""

    __slots__ = ("_samples", "_window_s", "_windows")

    def __init__(self, windows: int, window_s: float) -> None:
        self._windows = windows
        self._window_s = window_s
        self._samples: list[_Window] = []

    def record(self, value: float, now_s: float) -> None:
        """Adds a value; a negative value takes one back that was recorded at the same time."""
        samples = self._samples
        if not samples or now_s - samples[-1].began_s >= self._window_s:
            self._drop_old_windows(now_s)
            samples.append(_Window(now_s))
        current = samples[-1]
        current.total += value
        current.last_s = now_s

    def rate(self, now_s: float) -> float:
        """The values per second."""
        return self.total(now_s) / self.elapsed_s(now_s)

    def total(self, now_s: float) -> float:
        """The sum of the values that still count."""
        self._drop_old_windows(now_s)
        return sum(sample.total for sample in self._samples)

    def elapsed_s(self, now_s: float) -> float:
        """The time that the rate is measured over."""
        self._drop_old_windows(now_s)
        elapsed_s = now_s - self._samples[0].began_s if self._samples else 0.0
        missing = self._windows - 1 - int(elapsed_s / self._window_s)
        return max(elapsed_s + max(0, missing) * self._window_s, MIN_ELAPSED_S)

    def is_idle(self, now_s: float) -> bool:
        """Whether the meter has the same state as a new one."""
        self._drop_old_windows(now_s)
        return not self._samples

    def _drop_old_windows(self, now_s: float) -> None:
        samples = self._samples
        expiry_s = self._windows * self._window_s
        while samples and now_s - samples[0].last_s >= expiry_s:
            del samples[0]
