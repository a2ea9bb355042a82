"""The event loop of one simulated process.

It keeps asyncio's guarantees: callbacks run in the order of the calls, and those added in one
iteration run in the next. It chooses at random where asyncio makes no promise: the duration of an
iteration, the order of two timers that are due at the same time, the steps of other processes in
between. It can be paused, as by SIGSTOP, or end at any point, as by SIGKILL: then no clean-up code
runs.
"""

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple

from headrace.testing.simulation.schedule import Schedule

if TYPE_CHECKING:
    from headrace.testing.simulation.network import Network, SimulatedListener

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SHORTEST_TURN_S: Final = 5e-6
LONGEST_TURN_S: Final = 60e-6


class ProcessLoop(asyncio.AbstractEventLoop):
    """asyncio for one process, on virtual time."""

    def __init__(self, schedule: Schedule, network: "Network", host: str, name: str) -> None:
        self.name = name
        self.host = host
        self.alive = True
        self.paused = False
        self.after_turn: Callable[[], None] | None = None
        self.failed: Callable[[str, BaseException | None], None] | None = None
        self._schedule = schedule
        self._network = network
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._turn_at_s: float | None = None
        self._busy_until_s = 0.0

    # --- kill, pause and resume -----------------------------------------------------------------

    def kill(self) -> None:
        """Ends the loop: none of its code runs any more. Its objects stay referenced, so that no
        clean-up code runs."""
        self.alive = False

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self._turn_at_s = None
        self._wake()

    def spend(self, seconds: float) -> None:
        """Delays the next iteration, as a blocking call of the process does."""
        self._busy_until_s = max(self._busy_until_s, self._schedule.now_s) + seconds

    # --- iterations -----------------------------------------------------------------------------

    def _wake(self) -> None:
        """Schedules an iteration if a callback or timer is waiting."""
        if not self.alive or self.paused:
            return
        timers = self._timers
        while timers and timers[0][3].cancelled():
            heapq.heappop(timers)
        if self._ready:
            at_s = self._schedule.now_s
        elif timers:
            at_s = timers[0][0]
        else:
            return
        at_s = max(at_s, self._busy_until_s)
        if self._turn_at_s is None or at_s < self._turn_at_s:
            self._turn_at_s = at_s
            self._schedule.at(at_s, lambda: self._turn(at_s))

    def _turn(self, at_s: float) -> None:
        if not self.alive or self.paused or self._turn_at_s != at_s:
            return
        now_s = self._schedule.now_s
        if now_s < self._busy_until_s:  # a call has blocked since then
            self._turn_at_s = None
            self._wake()
            return
        timers, ready = self._timers, self._ready
        while timers and timers[0][0] <= now_s:
            handle = heapq.heappop(timers)[3]
            if not handle.cancelled():
                ready.append(handle)
        due = len(ready)
        self._schedule.trace.count(now_s, self.name, due)
        self.inside(lambda: self._run(due))
        self.spend(self._schedule.random.uniform(SHORTEST_TURN_S, LONGEST_TURN_S))
        self._turn_at_s = None
        self._wake()
        if self.after_turn is not None and self.alive:
            self.after_turn()

    def _run(self, due: int) -> None:
        ready = self._ready
        for _ in range(due):
            if not self.alive:
                return
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def inside(self, call: Callable[[], T]) -> T:
        """Runs `call` with this as the running loop, and returns its result."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            return call()
        finally:
            events._set_running_loop(before)

    # --- asyncio's interface of a loop ----------------------------------------------------------

    def time(self) -> float:
        return self._schedule.now_s

    def is_running(self) -> bool:
        return self.alive

    def is_closed(self) -> bool:
        return not self.alive

    def get_debug(self) -> bool:
        return False

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if self._turn_at_s is None or self._turn_at_s > self._schedule.now_s:
            self._wake()
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._schedule.now_s + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        entry = (when, self._schedule.random.random(), self._count, handle)
        heapq.heappush(self._timers, entry)
        if self._timers[0] is entry:
            self._wake()
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers stay in the heap until their time."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.failed is not None and self.alive:
            self.failed(str(context.get("message")), context.get("exception"))

    # --- the network ----------------------------------------------------------------------------

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        *,
        start_serving: bool = True,
        **_options: object,
    ) -> "SimulatedListener":
        listener = self._network.listen(self, protocol_factory, port)
        if start_serving:
            await listener.start_serving()
        return listener

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        **_options: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        endpoint = await self._network.connect(self, host, port)
        protocol = protocol_factory()
        endpoint.attach(protocol)
        return endpoint, protocol
