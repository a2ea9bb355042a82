"""Time, injected: nothing else in Headrace reads a clock, so that tests can own it."""

import time
from typing import Protocol


class Clock(Protocol):
    """`monotonic` measures waits and intervals; `wall_ms` stamps records and files."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump."""
        ...


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    monotonic = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
