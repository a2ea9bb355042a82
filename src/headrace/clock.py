"""The injected clock. No other module reads the system clocks, so tests can control time."""

import time
from typing import Protocol


class Clock(Protocol):
    """`monotonic` is for waits and intervals; `wall_ms` for timestamps of records and files."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never decreases."""
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
