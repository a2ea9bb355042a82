"""Virtual time: one heap of events for all simulated machines, and one source of chance.

Nothing waits: time jumps to the next event. Events of the same moment come in an order that the
seed decides, and everything else follows from it.
"""

import heapq
from collections.abc import Callable
from random import Random

from headrace.testing.simulation.trace import Trace


class Schedule:
    """When what happens. `now_s` counts from the start of the simulation."""

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        self.seed = seed
        self.now_s = 0.0
        self.random = Random(f"headrace/{seed}")  # noqa: S311 - must be repeatable
        self.trace = trace or Trace()
        self._heap: list[tuple[float, float, int, Callable[[], None]]] = []
        self._count = 0

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
            event()
        return True
