"""The connections of a broker, taken together."""

import asyncio
import contextlib
import gc
import socket
from collections.abc import Callable
from typing import cast

import pytest

from headrace.broker.network.connection import Connection
from headrace.broker.network.connection_limits import UNLIMITED, ServerLimits
from headrace.broker.network.dispatch import Dispatcher
from headrace.broker.network.server import Server
from headrace.clock import SystemClock
from headrace.cluster.listeners import Listener
from headrace.limited_log import BURST_LINES
from headrace.process_tuning import loop_factory
from headrace.testing import VirtualClock

TIMEOUT_S = 5.0
LIMITS = ServerLimits(
    max_frame_bytes=1000,
    max_in_flight=1,
    max_in_flight_bytes=1000,
    max_connections=10,
    max_connections_per_ip=10,
    connections_per_ip_overrides={},
    max_idle_s=600.0,
)


class Silent:
    """Nothing is asked here."""

    def dispatch(self) -> None:
        raise AssertionError


def test_a_connection_after_the_stop_is_refused() -> None:
    """The loop may have accepted it before its listener was closed, and it would stay open."""

    async def outcomes() -> list[bool]:
        loop = asyncio.get_running_loop()
        server = Server(loop, SystemClock(), cast("Dispatcher", Silent()), LIMITS)
        early, late = (Connection(server, loop, "PLAINTEXT") for _ in range(2))
        before = server.opened(early)
        server.close_listeners()
        return [before, server.opened(late)]

    assert asyncio.run(outcomes()) == [True, False]


class MutedTransport(asyncio.Transport):
    """The transport of a client that sends nothing; notes its end."""

    aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def abort(self) -> None:
        self.aborted = True


def test_an_idle_connection_ends_also_while_it_is_muted() -> None:
    """Otherwise a throttle time of days would keep the socket of a client that is gone."""

    async def outcomes() -> list[bool]:
        loop = asyncio.get_running_loop()
        server = Server(loop, SystemClock(), cast("Dispatcher", Silent()), LIMITS)
        connection, transport = Connection(server, loop, "PLAINTEXT"), MutedTransport()
        connection.connection_made(transport)
        connection.mute(1_000_000)
        server.sweep()
        before = transport.aborted
        connection.last_active -= LIMITS.max_idle_s + 1
        server.sweep()
        connection.connection_lost(None)
        return [before, transport.aborted]

    assert asyncio.run(outcomes()) == [False, True]


def test_the_lines_about_invalid_requests_are_limited_for_each_address() -> None:
    """Clients need no login to send those."""

    def admitted(host: str, server: Server) -> int:
        return sum(server.admit_log_line(host) is not None for _ in range(1000))

    async def outcomes() -> list[int]:
        loop = asyncio.get_running_loop()
        server = Server(loop, VirtualClock(), cast("Dispatcher", Silent()), LIMITS)
        return [admitted(host, server) for host in ("10.0.0.1", "10.0.0.2")]

    assert asyncio.run(outcomes()) == [BURST_LINES, BURST_LINES]


def test_connections_over_the_rate_of_their_address_are_closed_when_the_broker_stops() -> None:
    async def scenario() -> tuple[bytes, int]:
        loop = asyncio.get_running_loop()
        server = Server(loop, SystemClock(), cast("Dispatcher", Silent()), LIMITS)
        refused = asyncio.Event()

        def delay_s(_address: str) -> float:
            refused.set()
            return 1_000.0

        server.address_delay_s = delay_s
        port = await server.bind(Listener("PLAINTEXT", "127.0.0.1", 0, "PLAINTEXT"), 10)
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.wait_for(refused.wait(), TIMEOUT_S)
        server.close_listeners()
        end = await asyncio.wait_for(reader.read(), TIMEOUT_S)
        writer.close()
        return end, len(server._throttled)

    assert asyncio.run(scenario()) == (b"", 0)


@pytest.mark.parametrize("continues", [True, False], ids=["loop continues", "loop ends"])
@pytest.mark.parametrize("iterations", range(5))
@pytest.mark.parametrize(
    "new_loop", [asyncio.SelectorEventLoop, loop_factory()], ids=["asyncio", "uvloop"]
)
def test_a_connection_accepted_as_the_broker_stops_is_closed(
    new_loop: Callable[[], asyncio.AbstractEventLoop], iterations: int, *, continues: bool
) -> None:
    """However far the loop is with it. Python warns of a socket that nothing closes."""

    async def scenario() -> socket.socket:
        loop = asyncio.get_running_loop()
        limits = LIMITS._replace(max_connections=UNLIMITED)
        server = Server(loop, SystemClock(), cast("Dispatcher", Silent()), limits)
        port = await server.bind(Listener("PLAINTEXT", "127.0.0.1", 0, "PLAINTEXT"), 10)
        await server.start()
        client = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        for _ in range(iterations):
            await asyncio.sleep(0)
        server.close_listeners()
        server.abort()
        if continues:
            await asyncio.sleep(0.01)
        return client

    with asyncio.Runner(loop_factory=new_loop) as runner, runner.run(scenario()) as client:
        runner.close()
        gc.collect()
        with contextlib.suppress(ConnectionResetError):  # it was still in the system's queue
            assert client.recv(1) == b""
