"""Retry delays: exponential backoff with jitter, limited by a deadline. Pure."""

from dataclasses import dataclass
from random import Random

from headrace.clock import Clock


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double up to a limit; the jitter keeps clients from retrying in step."""

    initial_s: float = 0.05
    max_s: float = 1.0
    multiplier: float = 2.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.initial_s <= self.max_s:
            raise ValueError("backoff needs 0 < initial_s <= max_s")
        if self.multiplier < 1 or not 0 <= self.jitter < 1:
            raise ValueError("backoff needs multiplier >= 1 and 0 <= jitter < 1")

    def delay_s(self, failures: int, random: Random) -> float:
        """The delay after this many consecutive failures (at least one)."""
        delay = self.initial_s
        for _ in range(failures - 1):
            delay *= self.multiplier
            # Stop here: the power for a large number of failures would overflow.
            if delay >= self.max_s:
                delay = self.max_s
                break
        return delay * random.uniform(1 - self.jitter, 1 + self.jitter)


class Deadline:
    """A deadline on the monotonic clock."""

    __slots__ = ("_at", "_clock", "timeout_s")

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self._clock = clock
        self.timeout_s = timeout_s
        self._at = clock.monotonic() + timeout_s

    def remaining_s(self) -> float:
        """The seconds until the deadline; 0 after it."""
        return max(0.0, self._at - self._clock.monotonic())
