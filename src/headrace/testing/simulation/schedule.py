"""Virtual time: one heap of events for all simulated machines, and one source of randomness.

Nothing waits: time jumps to the next event. The seed decides the order of events at the same time,
and everything else follows from that.
"""

import heapq
from collections.abc import Callable
from random import Random
from typing import Final

from headrace.testing.simulation.trace import Trace

SPAN_S: Final = 5.0
MOST_EVENTS_PER_SPAN: Final = 50_000
"""A busy cluster has about 10,000 events in this span. Many more mean that code loops."""


class EndlessWork(AssertionError):
    """The same events repeat, and time hardly passes."""


class Schedule:
    """The events and their times. `now_s` counts from the start of the simulation."""

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
        """A separate random generator: the draws of one part do not affect other parts."""
        return Random(f"headrace/{self.seed}/{name}")  # noqa: S311 - must be repeatable

    def at(self, when_s: float, event: Callable[[], None]) -> None:
        """Runs `event` at `when_s`, or now if that has passed."""
        self._count += 1
        when_s = max(when_s, self.now_s)
        heapq.heappush(self._heap, (when_s, self.random.random(), self._count, event))

    def after(self, delay_s: float, event: Callable[[], None]) -> None:
        self.at(self.now_s + delay_s, event)

    def note(self, event: str) -> None:
        """Adds a line with the current time to the trace."""
        self.trace.note(f"{self.now_s:.6f} {event}")

    def run(self, until_s: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Runs events until `done` or until that time; returns whether it was `done`."""
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
            raise EndlessWork(f"{MOST_EVENTS_PER_SPAN} events within {SPAN_S:g} s")
