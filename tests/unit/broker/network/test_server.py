"""The connections of a broker, taken together."""

import asyncio
from typing import cast

from headrace.broker.network.connection import Connection
from headrace.broker.network.connection_limits import ServerLimits
from headrace.broker.network.dispatch import Dispatcher
from headrace.broker.network.server import Server
from headrace.clock import SystemClock

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
