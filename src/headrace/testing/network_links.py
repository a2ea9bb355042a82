"""The network between the brokers of a test cluster, with links that can be cut.

A cut link reports no error, like a real network: connections stay open, sent data waits, and new
connections are not established. When the link heals, all data arrives. Links of clients are not
affected.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, cast

PAUSE_S: Final = 0.01


class NetworkLinks:
    """The links between brokers, and the connections over them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._brokers: dict[int, int] = {}
        self._cut: frozenset[frozenset[int]] = frozenset()
        self._gates: set[_Gate] = set()

    def place(self, broker_id: int, port: int) -> None:
        """Registers the address of a broker."""
        with self._lock:
            self._brokers[port] = broker_id

    def cut(self, broker_id: int, others: Iterable[int]) -> None:
        with self._lock:
            self._cut |= {frozenset((broker_id, other)) for other in others}

    def heal(self) -> None:
        with self._lock:
            self._cut = frozenset()
            gates = list(self._gates)
        for gate in gates:
            gate.heal()

    def is_cut(self, one: int, other: int) -> bool:
        return frozenset((one, other)) in self._cut

    def loops(self, broker_id: int) -> Callable[[], asyncio.AbstractEventLoop]:
        """A factory of event loops for this broker; their connections go over these links."""
        base = _loop_class()

        async def create_connection(
            loop: asyncio.AbstractEventLoop,
            factory: Callable[[], asyncio.BaseProtocol],
            host: str | None = None,
            port: int | None = None,
            **options: Any,  # noqa: ANN401 - asyncio's own
        ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
            connect = partial(base.create_connection, loop)
            target = self._brokers.get(port or 0)
            if target is None:
                return await connect(factory, host, port, **options)
            while self.is_cut(broker_id, target):  # noqa: ASYNC110 - another thread heals it
                await asyncio.sleep(PAUSE_S)
            gated = partial(_Gate, factory, self, broker_id, target, loop)
            _, gate = await connect(gated, host, port, **options)
            assert isinstance(gate, _Gate)
            return gate.shown, gate.inner

        return type("LinkedLoop", (base,), {"create_connection": create_connection})

    def add(self, gate: "_Gate") -> None:
        with self._lock:
            self._gates.add(gate)

    def discard(self, gate: "_Gate") -> None:
        with self._lock:
            self._gates.discard(gate)


class _Gate(asyncio.Protocol):
    """A proxy between a transport and its protocol; queues their events while the link is cut."""

    def __init__(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        links: NetworkLinks,
        source: int,
        target: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        inner = factory()
        assert isinstance(inner, asyncio.Protocol | asyncio.BufferedProtocol)
        self.inner = inner
        self._links = links
        self._ends = (source, target)
        self._loop = loop
        self._held: list[Callable[[], None]] = []

    def heal(self) -> None:
        """Releases the queued events; can be called from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._release)
        except RuntimeError:  # its broker has ended
            self._links.discard(self)

    def run_or_queue(self, call: Callable[[], None]) -> None:
        """Runs the call now, or in order when the link has healed."""
        if self._held or self._links.is_cut(*self._ends):
            self._held.append(call)
        else:
            call()

    def _release(self) -> None:
        held, self._held = self._held, []
        for number, call in enumerate(held):
            if self._links.is_cut(*self._ends):
                self._held = held[number:]
                return
            call()

    def _receive(self, data: bytes) -> None:
        inner = self.inner
        if isinstance(inner, asyncio.Protocol):
            inner.data_received(data)
            return
        left = memoryview(data)
        while left and not self.shown.is_closing():
            room = memoryview(inner.get_buffer(len(left))).cast("B")
            count = min(len(room), len(left))
            room[:count] = left[:count]
            inner.buffer_updated(count)
            left = left[count:]

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.shown = _GatedTransport(cast("asyncio.Transport", transport), self)
        self._links.add(self)
        self.inner.connection_made(self.shown)

    def data_received(self, data: bytes) -> None:
        self.run_or_queue(partial(self._receive, data))

    def connection_lost(self, exc: Exception | None) -> None:
        self._links.discard(self)
        self.run_or_queue(partial(self.inner.connection_lost, exc))
        if self._held:
            self._links.add(self)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()


class _GatedTransport(asyncio.Transport):
    """The transport that the protocol sees."""

    def __init__(self, transport: asyncio.Transport, gate: _Gate) -> None:
        super().__init__()
        self._transport = transport
        self._gate = gate

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._gate.run_or_queue(partial(self._transport.write, bytes(data)))

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        self._gate.run_or_queue(partial(self._transport.write, b"".join(parts)))

    def close(self) -> None:
        self._gate.run_or_queue(self._transport.close)

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> Any:  # noqa: ANN401
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


def _loop_class() -> type[asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop
    loop: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return loop
