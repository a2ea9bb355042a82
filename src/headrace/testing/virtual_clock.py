"""A clock that a test moves: retention, sessions and transactions depend only on it.

    clock = headrace.testing.VirtualClock()
    with headrace.testing.Broker(clock=clock) as broker:
        ...
        clock.advance(days=8)

Time does not pass by itself, so nothing times out because a machine is slow. `advance` jumps:
timers that have become due run once, in the order of their deadlines, at the new time.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


class VirtualClock:
    """The time of one or more brokers. It starts at the machine's time, or at `start_ms`."""

    def __init__(self, *, start_ms: int | None = None) -> None:
        self._start_ms = time.time_ns() // 1_000_000 if start_ms is None else start_ms
        self._passed_ms = 0
        self._moving = threading.Lock()
        self._moved: list[Callable[[], None]] = []
        self._settlers: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        """Seconds since the clock was created."""
        return self._passed_ms / 1000

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._start_ms + self._passed_ms

    def advance(
        self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Moves the time forward, and returns when all brokers have run the timers that became
        due."""
        passed_s = seconds + minutes * _MINUTE_S + hours * _HOUR_S + days * _DAY_S
        if passed_s < 0:
            msg = f"cannot move time back by {-passed_s} s"
            raise ValueError(msg)
        with self._moving:
            self._passed_ms += round(passed_s * 1000)
            for moved in tuple(self._moved):
                moved()
            for settle in tuple(self._settlers):
                settle()

    # --- for brokers ----------------------------------------------------------------------------

    def subscribe(self, moved: Callable[[], None]) -> None:
        """Calls `moved` after every move, in the thread that moves the clock."""
        self._moved.append(moved)

    def attach(self, settle: Callable[[], None]) -> Callable[[], None]:
        """Adds `settle`, which blocks until due timers have run; the result removes it."""
        self._settlers.append(settle)
        return lambda: self._settlers.remove(settle)
