"""The simulated network: hosts, the data between them, and its delays.

It behaves as TCP does for programs: bytes arrive in order or not at all. On a cut link, data waits
and arrives after the link has healed. An ended process resets or refuses connections. A host
without power answers nothing; after its return it resets connections that it does not know.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from headrace.testing.simulation.loop import ProcessLoop
from headrace.testing.simulation.schedule import Schedule
from headrace.testing.simulation.transport import DATA, END, RESET, Item, SimulatedTransport

FIRST_PORT: Final = 40_000
FIRST_CLIENT_PORT: Final = 50_000

# Between deliveries of one connection: deliveries at the same time have a random order.
BETWEEN_PACKETS_S: Final = 1e-7
SHORTEST_DELAY_S: Final = 50e-6
MEAN_DELAY_S: Final = 200e-6
SLOW_PACKET: Final = 0.002  # the share that arrives much later than the others
SLOW_PACKET_S: Final = 0.03

Way = tuple[str, str]


class SimulatedListener:
    """The result of `create_server`: one listening socket."""

    def __init__(
        self,
        network: "Network",
        loop: ProcessLoop,
        factory: Callable[[], asyncio.BaseProtocol],
        port: int,
    ) -> None:
        self.loop = loop
        self.port = port
        self.listening = False
        self._network = network
        self._factory = factory

    @property
    def sockets(self) -> tuple["SimulatedListener", ...]:
        return (self,)

    def getsockname(self) -> tuple[str, int]:
        return (self.loop.host, self.port)

    async def start_serving(self) -> None:
        self.listening = True

    def is_serving(self) -> bool:
        return self.listening

    def close(self) -> None:
        self.listening = False
        self._network.forget_listener(self)

    async def wait_closed(self) -> None:
        """Returns at once: `close` has no asynchronous part."""

    def accept(self, endpoint: SimulatedTransport) -> None:
        self.loop.call_soon(lambda: endpoint.attach(self._factory()))


@dataclass(slots=True)
class _Attempt:
    """A connection that is being established."""

    loop: ProcessLoop
    host: str
    port: int
    done: "asyncio.Future[SimulatedTransport]"


class Network:
    """All links. A way is (from host, to host); faults apply to each way separately."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._random = schedule.random_of("network")
        self._listeners: dict[tuple[str, int], SimulatedListener] = {}
        self._endpoints: dict[SimulatedTransport, None] = {}
        self._next_port = FIRST_PORT
        self._next_client_port = FIRST_CLIENT_PORT
        self._cut: set[Way] = set()
        self._slow: dict[Way, float] = {}
        self._down: set[str] = set()
        self._waiting: dict[Way, list[Callable[[], None]]] = {}

    # --- faults ---------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Delivers nothing this way until it is healed."""
        self._cut.add((source, target))

    def heal(self, source: str, target: str) -> None:
        way = (source, target)
        if way in self._cut:
            self._cut.discard(way)
            self._release(way)

    def slow_down(self, source: str, target: str, mean_delay_s: float) -> None:
        self._slow[source, target] = mean_delay_s

    def speed_up(self, source: str, target: str) -> None:
        self._slow.pop((source, target), None)

    def heal_all(self) -> None:
        self._slow.clear()
        for way in sorted(self._cut):
            self.heal(*way)

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def reset(self, source: str, target: str) -> int:
        """Resets the open connections between two hosts; returns their number."""
        hosts = {source, target}
        broken = [
            endpoint
            for endpoint in self._endpoints
            if {endpoint.loop.host, endpoint.peer.loop.host} == hosts
        ]
        for endpoint in broken:
            self._schedule.after(self._delay((source, target)), partial(endpoint.arrive, RESET))
        return len(broken)

    def switch_off(self, host: str) -> None:
        """Turns the host off: it sends nothing, not even the end of its connections."""
        self._down.add(host)
        for endpoint in [each for each in self._endpoints if each.loop.host == host]:
            endpoint.vanish()
            del self._endpoints[endpoint]

    def switch_on(self, host: str) -> None:
        self._down.discard(host)

    # --- listening and connecting ---------------------------------------------------------------

    def listen(
        self, loop: ProcessLoop, factory: Callable[[], asyncio.BaseProtocol], port: int
    ) -> SimulatedListener:
        if not port:
            self._next_port += 1
            port = self._next_port
        held = self._listeners.get((loop.host, port))
        if held is not None and held.loop.alive:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        listener = self._listeners[loop.host, port] = SimulatedListener(self, loop, factory, port)
        return listener

    def forget_listener(self, listener: SimulatedListener) -> None:
        place = (listener.loop.host, listener.port)
        if self._listeners.get(place) is listener:
            del self._listeners[place]

    async def connect(self, loop: ProcessLoop, host: str, port: int) -> SimulatedTransport:
        attempt = _Attempt(loop, host, port, loop.create_future())
        self._pass((loop.host, host), lambda: self._requested(attempt))
        try:
            return await attempt.done
        except asyncio.CancelledError:
            if attempt.done.done() and not attempt.done.cancelled():
                attempt.done.result().abort()
            raise

    def _requested(self, attempt: _Attempt) -> None:
        """Handles a connection request at the other host."""
        back = (attempt.host, attempt.loop.host)
        listener = self._listeners.get((attempt.host, attempt.port))
        if listener is None or not listener.listening or not listener.loop.alive:
            self._pass(back, lambda: _refuse(attempt))
            return
        self._next_client_port += 1
        here = (attempt.loop.host, self._next_client_port)
        there = (attempt.host, attempt.port)
        ours = SimulatedTransport(self, attempt.loop, here, there)
        theirs = SimulatedTransport(self, listener.loop, there, here)
        ours.peer, theirs.peer = theirs, ours
        self._endpoints[theirs] = None
        self._schedule.note(f"connected {here} {there}")
        listener.accept(theirs)
        self._pass(back, lambda: self._accepted(attempt, ours))

    def _accepted(self, attempt: _Attempt, ours: SimulatedTransport) -> None:
        if attempt.done.done() or not attempt.loop.alive:
            self.send(ours, RESET, b"")
            return
        self._endpoints[ours] = None
        attempt.done.set_result(ours)

    # --- delivery -------------------------------------------------------------------------------

    def send(self, source: SimulatedTransport, kind: Item, data: bytes) -> None:
        """Delivers data to the other end, after everything that was sent before."""
        target = source.peer
        way = (source.loop.host, target.loop.host)
        after_s = source.last_arrival_s + BETWEEN_PACKETS_S
        arrival_s = max(self._schedule.now_s + self._delay(way), after_s)
        source.last_arrival_s = arrival_s

        def arrive() -> None:
            if way in self._cut or source.stuck:
                # Later data waits behind it.
                source.stuck.append(arrive)
                if len(source.stuck) == 1:
                    self._waiting.setdefault(way, []).append(lambda: self._unstick(source))
                return
            self._deliver(source, target, kind, data)

        self._schedule.at(arrival_s, arrive)

    def _deliver(
        self, source: SimulatedTransport, target: SimulatedTransport, kind: Item, data: bytes
    ) -> None:
        self._schedule.trace.count(self._schedule.now_s, kind, len(data))
        if target.loop.host in self._down:
            return
        if target.gone:
            if kind == DATA and not source.gone:
                back = self._delay((target.loop.host, source.loop.host))
                self._schedule.after(back, lambda: source.arrive(RESET))
            return
        target.arrive(kind, data)

    def _unstick(self, source: SimulatedTransport) -> None:
        stuck, source.stuck = source.stuck, []
        for arrive in stuck:
            arrive()

    def _pass(self, way: Way, then: Callable[[], None]) -> None:
        """Delivers the packets that establish connections."""

        def arrive() -> None:
            if way in self._cut:
                self._waiting.setdefault(way, []).append(arrive)
            elif way[0] not in self._down and way[1] not in self._down:
                then()

        self._schedule.after(self._delay(way), arrive)

    def _release(self, way: Way) -> None:
        for arrive in self._waiting.pop(way, []):
            self._schedule.after(self._delay(way), arrive)

    def _delay(self, way: Way) -> float:
        mean_s = self._slow.get(way, MEAN_DELAY_S)
        delay_s = SHORTEST_DELAY_S + self._random.expovariate(1 / mean_s)
        if self._random.random() < SLOW_PACKET:
            delay_s += self._random.random() * SLOW_PACKET_S
        return delay_s

    # --- end of connections and processes -------------------------------------------------------

    def forget(self, endpoint: SimulatedTransport) -> None:
        self._endpoints.pop(endpoint, None)

    def process_ended(self, loop: ProcessLoop) -> None:
        """Closes the connections of the process, with an end or a reset that arrives last."""
        for endpoint in [each for each in self._endpoints if each.loop is loop]:
            kind: Literal["end", "reset"] = END if self._random.random() < 0.5 else RESET
            endpoint.vanish()
            del self._endpoints[endpoint]
            self.send(endpoint, kind, b"")
        for listener in [each for each in self._listeners.values() if each.loop is loop]:
            listener.close()


def _refuse(attempt: _Attempt) -> None:
    if not attempt.done.done():
        code = errno.ECONNREFUSED
        attempt.done.set_exception(ConnectionRefusedError(code, os.strerror(code)))
