"""Listeners and the connections that they accept, within limits.

The server refuses connections past the limits (`connection_limits`) before it reads a byte. Idle
connections end after `connections.max.idle.ms`.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable, Sequence

from headrace.broker.network.connection import Connection, Dispatch
from headrace.broker.network.connection_limits import ConnectionCounts, ServerLimits
from headrace.broker.network.dispatch import Dispatcher
from headrace.broker.runtime.errors import StartupError
from headrace.clock import Clock
from headrace.cluster.image import Endpoint
from headrace.cluster.listeners import ANY_ADDRESS, Listener

log = logging.getLogger(__name__)

RELEASE_MEMORY_AFTER_S = 10.0


class Server:
    """Owns the listening sockets and every open connection of one broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        dispatcher: Dispatcher,
        limits: ServerLimits,
    ) -> None:
        self.apply_limits(limits)
        self.monotonic = clock.monotonic
        self._loop = loop
        self.dispatch: Dispatch = dispatcher.dispatch
        self._listeners: list[asyncio.Server] = []
        self._connections: dict[Connection, None] = {}
        self._counts = ConnectionCounts()
        self._refused = 0
        self.unsent_bytes = 0  # bytes for clients that do not read their responses
        self.allows_fast_paths = True
        self._all_closed: asyncio.Event | None = None
        self._closing = False

    def apply_limits(self, limits: ServerLimits) -> None:
        """Sets the limits for connections and requests from now on."""
        self.max_frame_bytes = limits.max_frame_bytes
        self.max_in_flight = limits.max_in_flight
        self.max_in_flight_bytes = limits.max_in_flight_bytes
        self._limits = limits

    def replace_dispatch(self, dispatch: Dispatch) -> None:
        """Serves requests with `dispatch` from now on, also those of open connections."""
        before, self.dispatch = self.dispatch, dispatch
        for connection in self._connections:
            if connection.dispatch == before:
                connection.dispatch = dispatch

    def allow_fast_paths(self, *, allowed: bool) -> None:
        """Enables or disables fast paths; without them every request passes through `dispatch`."""
        self.allows_fast_paths = allowed
        if not allowed:
            for connection in self._connections:
                connection.fast_path = None

    async def bind(self, listener: Listener, backlog: int) -> int:
        """Binds without accepting yet; returns the port, which the system chooses for port 0."""
        if listener.security_protocol != "PLAINTEXT":
            msg = f"listener {listener.name}: {listener.security_protocol} is not supported yet"
            raise StartupError(msg)
        host = listener.host.strip("[]")
        try:
            server = await self._loop.create_server(
                lambda: Connection(self, self._loop, listener.name),
                host or None,
                listener.port,
                backlog=backlog,
                reuse_address=True,
                start_serving=False,
            )
        except OSError as error:
            where = host_and_port(host or ANY_ADDRESS, listener.port)
            raise StartupError(f"cannot listen on {where}: {_bind_error(error)}") from error
        self._listeners.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def start(self) -> None:
        for listener in self._listeners:
            await listener.start_serving()

    # --- called by connections ------------------------------------------------------------------

    def opened(self, connection: Connection) -> bool:
        if self._closing:  # accepted by the loop before its listener was closed
            return False
        ip = _ip(connection)
        reached = self._counts.reached_limit(ip, self._limits)
        if reached is not None:
            self._refused += 1
            if self._refused.bit_count() == 1:  # 1, 2, 4, 8 ...: must not flood the log
                log.warning(
                    "refused a connection",
                    extra={"peer": connection.peer, "limit": reached, "refused": self._refused},
                )
            return False
        self._connections[connection] = None
        self._counts.add(ip)
        return True

    def closed(self, connection: Connection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self._counts.remove(_ip(connection))
            if self._all_closed is not None and not self._connections:
                self._all_closed.set()

    # --- maintenance ----------------------------------------------------------------------------

    def sweep(self) -> None:
        """Ends idle connections and frees the memory of quiet ones."""
        now = self.monotonic()
        for connection in tuple(self._connections):
            quiet_s = now - connection.last_active
            if quiet_s > self._limits.max_idle_s and not connection.in_flight:
                connection.close("idle for longer than connections.max.idle.ms")
            elif quiet_s > RELEASE_MEMORY_AFTER_S:
                connection.release_memory()

    def close_listeners(self) -> None:
        self._closing = True
        for listener in self._listeners:
            listener.close()

    async def drain(self, timeout_s: float) -> None:
        """Answers accepted requests; closes connections that are not done in time."""
        for connection in tuple(self._connections):
            connection.drain()
        if self._connections:
            self._all_closed = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), timeout_s)
        self.abort()

    def abort(self) -> None:
        for connection in tuple(self._connections):
            connection.close("the broker stops")


def _ip(connection: Connection) -> str:
    return connection.peer.rpartition(":")[0]


def advertised_endpoints(
    bound: Sequence[tuple[Listener, int]],
    advertised_listeners: Sequence[Listener],
    host_name: Callable[[], str],
) -> tuple[Endpoint, ...]:
    """The addresses that clients get for the listeners, which are bound to these ports."""
    advertised = {listener.name: listener for listener in advertised_listeners}
    endpoints = []
    for listener, port in bound:
        shown = advertised.get(listener.name)
        host = shown.host if shown else listener.host
        if host in ("", ANY_ADDRESS, "[::]"):
            host = host_name()
        shown_port = shown.port if shown and shown.port else port
        endpoints.append(
            Endpoint(listener.name, host.strip("[]"), shown_port, listener.security_protocol)
        )
    return tuple(endpoints)


def host_and_port(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bind_error(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; choose another with --port, or --port 0"
    if isinstance(error, socket.gaierror):
        return "no such host; listen on an address of this machine"
    return os.strerror(error.errno) if error.errno else str(error)
