"""Detects a wall clock that jumps ahead, which would make all data look old.

Every task that deletes by age checks here first, in each run. The first run after a jump deletes
nothing: a clock that was set wrong may be correct again by the next run.
"""

import logging
from typing import Final

from headrace.clock import Clock

# Larger than any correction of a running clock; smaller than common retention times.
MAX_CLOCK_GAIN_MS: Final = 60_000

log = logging.getLogger(__package__)


class ClockJumps:
    """Compares the wall clock with the monotonic clock between runs of the task `what`."""

    __slots__ = ("_clock", "_last", "_what")

    def __init__(self, clock: Clock, what: str) -> None:
        self._clock = clock
        self._what = what
        self._last = (clock.wall_ms(), clock.monotonic())

    def check_for_jump(self) -> bool:
        """Whether the wall clock has gained on the monotonic clock since the last call."""
        (last_ms, last_s) = self._last
        now_ms, now_s = self._last = (self._clock.wall_ms(), self._clock.monotonic())
        gained_ms = (now_ms - last_ms) - int((now_s - last_s) * 1000)
        if gained_ms <= MAX_CLOCK_GAIN_MS:
            return False
        log.warning(
            "the wall clock has jumped ahead; deletion by age is skipped until the next run",
            extra={"of": self._what, "gained_ms": gained_ms},
        )
        return True
