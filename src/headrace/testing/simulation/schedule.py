"""Virtual time: one heap of events for all simulated machines, and one source of chance.

Nothing waits: time jumps to the next event. Events of the same moment come in an order that the
seed decides, and everything else follows from it.
"""

import heapq
from collections.abc import Callable
from random import Random
from typing import Final

from headrace.testing.simulation.trace import Trace

SPAN_S: Final = 5.0
MOST_EVENTS_PER_SPAN: Final = 50_000
"""A busy cluster has about 10,000 in such a span. So many more are somebody who never rests."""


class RunsInCircles(AssertionError):
    """Something happens again and again, and time hardly passes."""


class Schedule:
    """When what happens. `now_s` counts from the start of the simulation."""

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        self.seed = seed
        self.now_s = 0.0
        self.random = Random(f"headrace/{seed}")  # noqa: S311 - must be repeatable
        self.trace = trace or Trace()
        self._heap: list[tuple[float, float, int, Callable[[], None]]] = []
        self._count = 0
        self._span_ends_s = 0.0
        self._events_left = MOST_EVENTS_PER_SPAN

    def random_of(self, name: str) -> Random:
        """Chance of its own: what one part draws does not change what others get."""
        return Random(f"headrace/{self.seed}/{name}")  # noqa: S311 - must be repeatable

    def at(self, when_s: float, event: Callable[[], None]) -> None:
        """`event` happens at `when_s`, or now if that has passed."""
        self._count += 1
        when_s = max(when_s, self.now_s)
        heapq.heappush(self._heap, (when_s, self.random.random(), self._count, event))

    def after(self, delay_s: float, event: Callable[[], None]) -> None:
        self.at(self.now_s + delay_s, event)

    def note(self, event: str) -> None:
        """A line of the trace, with its time."""
        self.trace.note(f"{self.now_s:.6f} {event}")

    def run(self, until_s: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Lets events happen until `done`, or until that time; whether it was `done`."""
        heap = self._heap
        while not done():
            if not heap or heap[0][0] > until_s:
                self.now_s = max(self.now_s, until_s)
                return done()
            when_s, _, _, event = heapq.heappop(heap)
            self.now_s = when_s
            self._count_event()
            event()
        return True

    def _count_event(self) -> None:
        if self.now_s >= self._span_ends_s:
            self._span_ends_s = self.now_s + SPAN_S
            self._events_left = MOST_EVENTS_PER_SPAN
        self._events_left -= 1
        if self._events_left < 0:
            raise RunsInCircles(f"{MOST_EVENTS_PER_SPAN} events within {SPAN_S:g} s")
