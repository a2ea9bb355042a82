"""Long work on the event loop, in slices."""

import asyncio
from typing import Final

from headrace.clock import Clock

SLICE_S: Final = 0.0002  # other connections wait no longer for one slice


class TimeSlices:
    """Returns to the event loop when a slice is over."""

    __slots__ = ("_clock", "_ends")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends = clock.monotonic() + SLICE_S

    @property
    def is_over(self) -> bool:
        return self._clock.monotonic() >= self._ends

    async def rest(self) -> None:
        """Serves other connections, and begins the next slice."""
        await asyncio.sleep(0)
        self._ends = self._clock.monotonic() + SLICE_S
