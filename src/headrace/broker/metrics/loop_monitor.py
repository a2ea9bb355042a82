"""Measures the event loop: how late its timers are, and how busy its thread is.

A request that keeps the loop for long delays all others. The lag shows it: each `INTERVAL_S` a
timer is due, and its delay is recorded. Once in each `WINDOW_S` the monitor begins new windows for
the quantiles of all durations.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from headrace.metrics.durations import Durations

INTERVAL_S: Final = 0.25
"""Four wake-ups a second: an idle broker uses 0.02 % of a core for them."""
WINDOW_S: Final = 60.0


class LoopMonitor:
    """Runs while the HTTP port is open."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fold: Callable[[], None],
        rotate: Callable[[], None],
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        """`fold` counts recorded durations elsewhere, `rotate` begins new windows there; `cpu_s` is
        the CPU time of the loop's thread."""
        self.lag = Durations()
        self.idle_share = 1.0
        """Of the last interval; 0 if the thread was always busy."""
        self._loop = loop
        self._fold = fold
        self._rotate = rotate
        self._cpu_s = cpu_s
        self._window_began = loop.time()
        self._ticked_at = loop.time()
        self._cpu_at_tick = cpu_s()
        self._timer = loop.call_at(self._ticked_at + INTERVAL_S, self._tick)

    def stop(self) -> None:
        self._timer.cancel()

    def _tick(self) -> None:
        now, cpu = self._loop.time(), self._cpu_s()
        elapsed_s = now - self._ticked_at
        self.lag.add(max(0.0, elapsed_s - INTERVAL_S))
        if elapsed_s > 0:
            busy = (cpu - self._cpu_at_tick) / elapsed_s
            self.idle_share = min(1.0, max(0.0, 1 - busy))
        self._ticked_at, self._cpu_at_tick = now, cpu
        self._fold()
        if now - self._window_began >= WINDOW_S:
            self._window_began = now
            self.lag.rotate()
            self._rotate()
        self._timer = self._loop.call_at(now + INTERVAL_S, self._tick)
