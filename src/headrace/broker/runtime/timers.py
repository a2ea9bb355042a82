"""Timers on the injected clock.

`Timers` calls back once after a delay. `KeyedTimers` keeps one deadline for each key and is made
for deadlines that move: every heartbeat of every member postpones one, and almost none expires, so
postponing only writes a number.

A clock with a `subscribe(callback)` method is moved by hand: nothing expires by itself, and all due
timers run when the clock reports that it has moved.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable, Hashable
from typing import Final, Protocol, runtime_checkable

from headrace.clock import Clock

log = logging.getLogger(__package__)

# Cancelled and postponed entries stay in a heap until they reach its top. Past this many, the heap
# is rebuilt once they are the larger part of it.
MIN_STALE_ENTRIES: Final = 256


@runtime_checkable
class ManuallyMovedClock(Protocol):
    """A clock that moves only when its owner moves it."""

    def subscribe(self, moved: Callable[[], None]) -> None:
        """Calls `moved` after every move, from the thread that moves the clock."""
        ...


class Timer:
    """One pending call, which can be cancelled."""

    __slots__ = ("_timers", "at", "callback")

    def __init__(self, timers: "Timers", at: float, callback: Callable[[], None]) -> None:
        self._timers = timers
        self.at = at
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: "Timer") -> bool:
        return self.at < other.at

    def cancel(self) -> None:
        """Cancels the call; safe to repeat, and after the timer has expired."""
        if self.callback is not None:
            self.callback = None
            self._timers.cancelled()


class Timers:
    """All timers of one broker, on one timer of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self._loop = loop
        self._heap: list[Timer] = []
        self._stale = 0
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at = float("inf")
        self._closed = False
        self._is_manual = isinstance(clock, ManuallyMovedClock)
        if isinstance(clock, ManuallyMovedClock):
            clock.subscribe(self._moved)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Calls back on the loop, never during this call."""
        timer = Timer(self, self.monotonic() + delay_s, callback)
        heapq.heappush(self._heap, timer)
        if timer.at < self._wake_at:
            self._arm(timer.at)
        return timer

    async def sleep(self, delay_s: float) -> None:
        """Waits on the injected clock."""
        over: asyncio.Future[None] = self._loop.create_future()
        timer = self.call_later(delay_s, lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            timer.cancel()

    @property
    def due(self) -> bool:
        """Whether a timer has expired whose callback has not run yet."""
        return bool(self._heap) and self._heap[0].at <= self.monotonic()

    def close(self) -> None:
        """Stops all timers."""
        self._closed = True
        self._heap.clear()
        if self._wake is not None:
            self._wake.cancel()

    def cancelled(self) -> None:
        """Called by a timer that was cancelled."""
        self._stale += 1
        if self._stale > MIN_STALE_ENTRIES and self._stale * 2 > len(self._heap):
            self._heap = [timer for timer in self._heap if timer.callback is not None]
            heapq.heapify(self._heap)
            self._stale = 0

    def _arm(self, at: float) -> None:
        if self._closed:
            return
        if self._is_manual:
            if at <= self.monotonic():
                self._loop.call_soon(self._fire)
            return
        if self._wake is not None:
            self._wake.cancel()
        self._wake_at = at
        self._wake = self._loop.call_later(max(0.0, at - self.monotonic()), self._fire)

    def _moved(self) -> None:
        if not (self._closed or self._loop.is_closed()):
            self._loop.call_soon_threadsafe(self._fire)

    def _fire(self) -> None:
        self._wake_at = float("inf")
        now = self.monotonic()
        while self._heap and self._heap[0].at <= now:
            callback = self._pop_callback()
            if callback is not None:
                try:
                    callback()
                except Exception:
                    log.exception(
                        "unexpected error in the callback of a timer; the other timers run"
                    )
        if self._heap:
            self._arm(self._heap[0].at)

    def _pop_callback(self) -> Callable[[], None] | None:
        timer = heapq.heappop(self._heap)
        callback, timer.callback = timer.callback, None
        if callback is None:
            self._stale -= 1
        return callback


class _Deadline:
    """The time at which a key expires, and its entry in the heap, which is not later."""

    __slots__ = ("at", "entry")

    def __init__(self, at: float) -> None:
        self.at = at
        self.entry = at


class KeyedTimers:
    """One deadline for each key; `expired(key)` is called when it has passed."""

    def __init__(self, timers: Timers, expired: Callable[[Hashable], None]) -> None:
        self._timers = timers
        self._monotonic = timers.monotonic
        self._expired = expired
        self._deadlines: dict[Hashable, _Deadline] = {}
        # An entry that is not its key's current one belongs to a deadline that was moved or
        # cancelled.
        self._heap: list[tuple[float, int, Hashable]] = []
        self._count = 0  # keys need not be comparable
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: Hashable, delay_s: float) -> None:
        """Sets or moves the key's deadline."""
        at = self._monotonic() + delay_s
        deadline = self._deadlines.get(key)
        if deadline is None:
            deadline = self._deadlines[key] = _Deadline(at)
            self._push_entry(key, deadline)
            return
        deadline.at = at
        if at < deadline.entry:
            self._push_entry(key, deadline)

    def cancel(self, key: Hashable) -> None:
        """Removes the key's deadline, if it has one."""
        self._deadlines.pop(key, None)

    def clear(self) -> None:
        self._deadlines.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _push_entry(self, key: Hashable, deadline: _Deadline) -> None:
        deadline.entry = deadline.at
        self._count += 1
        heap = self._heap
        heapq.heappush(heap, (deadline.at, self._count, key))
        if len(heap) > MIN_STALE_ENTRIES and len(heap) > 2 * len(self._deadlines):
            self._rebuild()
        if self._timer is None or self._heap[0][0] < self._timer.at:
            self._arm()

    def _rebuild(self) -> None:
        self._heap = []
        for number, (key, deadline) in enumerate(self._deadlines.items()):
            deadline.entry = deadline.at
            self._heap.append((deadline.at, number, key))
        self._count = len(self._heap)
        heapq.heapify(self._heap)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            delay_s = self._heap[0][0] - self._monotonic()
            self._timer = self._timers.call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._monotonic()
        try:
            while self._heap and self._heap[0][0] <= now:
                entry, _, key = heapq.heappop(self._heap)
                deadline = self._deadlines.get(key)
                if deadline is None or deadline.entry != entry:
                    continue  # cancelled, or replaced by an earlier entry of the same key
                if deadline.at > now:
                    self._push_entry(key, deadline)
                    continue
                del self._deadlines[key]
                self._expired(key)
        finally:
            self._arm()
