"""The HTTP port: its sockets, and its connections within limits.

A connection above the limit waits in the system's queue, unless another one is idle: that one is
closed in its favour. A TLS handshake has the same time limit as a request.
"""

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from math import inf
from typing import Final

from headrace.broker.http.http_connection import HttpConnection
from headrace.broker.http.http_message import HttpRequest, HttpResponse
from headrace.broker.network.acceptor import Acceptor, listening_sockets
from headrace.broker.runtime.errors import StartupError
from headrace.cluster.listeners import ANY_ADDRESS, Listener

log = logging.getLogger(__package__)

BACKLOG: Final = 64

Respond = Callable[[HttpRequest], Awaitable[HttpResponse]]


class HttpServer:
    """Serves the requests of one listener."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        respond: Respond,
        *,
        max_connections: int,
        timeout_s: float,
        tls: Callable[[], ssl.SSLContext | None],
    ) -> None:
        """`tls` returns the newest context of a listener that uses TLS."""
        self.timeout_s = timeout_s
        self.respond = respond
        self._loop = loop
        self._listener = listener
        self._max_connections = max_connections
        self._tls = tls
        self._acceptor: Acceptor | None = None
        self._is_serving = False
        self._accepting: dict[socket.socket, asyncio.Task[None]] = {}
        self._connections: dict[HttpConnection, None] = {}

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    async def bind(self) -> int:
        """Binds without accepting yet; returns the port, which the system chooses for port 0."""
        host = self._listener.host.strip("[]")
        try:
            sockets = await listening_sockets(self._loop, host or None, self._listener.port)
        except OSError as error:
            where = f"{self._listener.host or ANY_ADDRESS}:{self._listener.port}"
            raise StartupError(
                f"headrace.http.listener: cannot listen on {where}: {_bind_error(error)}"
            ) from error
        self._acceptor = Acceptor(self._loop, sockets, self._delay_s, self._accept)
        return self._acceptor.port

    async def serve(self) -> None:
        """Begins to accept connections; with TLS only if there is a context."""
        if self._is_serving or (self._listener.uses_tls and self._tls() is None):
            return
        assert self._acceptor is not None  # bound
        self._is_serving = True
        await self._acceptor.start(BACKLOG)

    def close(self) -> None:
        """Closes everything at once."""
        if self._acceptor is not None:
            self._acceptor.close()
        for connected, accepting in tuple(self._accepting.items()):
            accepting.cancel()
            connected.close()
        for connection in tuple(self._connections):
            connection.abort()

    # --- called by connections ------------------------------------------------------------------

    def opened(self, connection: HttpConnection) -> None:
        self._connections[connection] = None

    def closed(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)
        self._retry()

    # --- accepting ------------------------------------------------------------------------------

    def _delay_s(self) -> float:
        if len(self._connections) + len(self._accepting) < self._max_connections:
            return 0.0
        idle = next((each for each in self._connections if each.is_idle), None)
        if idle is not None:
            idle.abort()  # its end calls `_retry`
        return inf

    def _accept(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        task = self._loop.create_task(self._open(connected))
        self._accepting[connected] = task

    async def _open(self, connected: socket.socket) -> None:
        context = self._tls() if self._listener.uses_tls else None
        timeout_s = None if context is None else self.timeout_s
        try:
            await self._loop.connect_accepted_socket(
                lambda: HttpConnection(self, self._loop),
                connected,
                ssl=context,
                ssl_handshake_timeout=timeout_s,
                ssl_shutdown_timeout=timeout_s,
            )
        except OSError as error:  # a failed handshake, or the client is gone
            log.debug("HTTP connection not opened", extra={"error": str(error)})
            connected.close()
        finally:
            self._accepting.pop(connected, None)
            self._retry()

    def _retry(self) -> None:
        if self._acceptor is not None:
            self._acceptor.retry()


def _bind_error(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; choose another, or port 0"
    if isinstance(error, socket.gaierror):
        return "no such host; listen on an address of this machine"
    return os.strerror(error.errno) if error.errno else str(error)
