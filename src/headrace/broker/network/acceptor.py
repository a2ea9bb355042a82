"""Accepts the connections of one listener, as fast as the limits allow.

The event loop's own servers report a connection after its TLS handshake, and accept without end.
Limits must apply before: a connection that is not accepted waits in the system's queue. Without TLS
and limits, uvloop accepts: it needs a fifth less CPU for a connection.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

log = logging.getLogger(__package__)

PAUSE_S: Final = 1.0
"""Until descriptors or memory may be available again."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BIND_ATTEMPTS: Final = 10


class Acceptor:
    """The listening sockets of one listener, one for each address family."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: Sequence[socket.socket],
        delay_s: Callable[[], float],
        accepted: Callable[[socket.socket], None],
    ) -> None:
        """`delay_s` returns how long the next connection must wait, `inf` for until `retry`."""
        self._loop = loop
        self._sockets = sockets
        self._delay_s = delay_s
        self._accepted = accepted
        self._started = False
        self._closed = False
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop_servers: list[asyncio.Server] = []

    @property
    def port(self) -> int:
        port: int = self._sockets[0].getsockname()[1]
        return port

    async def start(
        self, backlog: int, protocol: Callable[[], asyncio.BaseProtocol] | None = None
    ) -> None:
        """With `protocol`, uvloop accepts and serves connections, until `take_over`.

        asyncio's own loop does not: it opens a connection one iteration after it has accepted it,
        and leaves the socket open if the server is closed in between.
        """
        by_loop = not isinstance(self._loop, asyncio.SelectorEventLoop)
        for each in self._sockets:
            each.listen(backlog)
            if protocol is None or not by_loop:
                self._loop.add_reader(each, self._accept, each)
            else:
                # A copy of the descriptor: `take_over` closes it, and the queue of connections
                # stays.
                server = await self._loop.create_server(protocol, sock=each.dup(), backlog=backlog)
                self._loop_servers.append(server)
        self._started = True

    def take_over(self) -> None:
        """Accepts instead of the loop from now on, because limits apply."""
        if self._loop_servers and not self._closed:
            self._close_loop_servers()
            for each in self._sockets:
                self._loop.add_reader(each, self._accept, each)

    def _close_loop_servers(self) -> None:
        servers, self._loop_servers = self._loop_servers, []
        for server in servers:
            server.close()

    def retry(self) -> None:
        """Accepts again: a connection has ended, or the limits have changed."""
        if self._paused and not self._closed:
            self._paused = False
            if self._timer is not None:
                self._timer.cancel()
            for each in self._sockets:
                self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        if self._closed:
            return
        self._pause(inf)
        self._closed = True
        self._close_loop_servers()
        for each in self._sockets:
            each.close()

    def _pause(self, delay_s: float) -> None:
        if self._paused or self._closed:
            return
        self._paused = True
        if self._started:
            for each in self._sockets:
                self._loop.remove_reader(each)
        if delay_s < inf:
            self._timer = self._loop.call_later(delay_s, self.retry)

    def _accept(self, listening: socket.socket) -> None:
        """Accepts one connection; the loop calls again for the next, after other work."""
        delay_s = self._delay_s()
        if delay_s:
            self._pause(delay_s)
            return
        try:
            connected, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            # Other errors are those of one connection, which is gone.
            if error.errno in _EXHAUSTED:
                log.error("cannot accept connections", extra={"error": error.strerror})
                self._pause(PAUSE_S)
            return
        self._accepted(connected)


async def listening_sockets(
    loop: asyncio.AbstractEventLoop, host: str | None, port: int
) -> list[socket.socket]:
    """Sockets that are bound to every address of the host, with one port; raises `OSError`."""
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    for attempt in range(_BIND_ATTEMPTS):
        try:
            return _bind_all(addresses)
        except OSError as error:
            # The system chose a port that is free for the first address only.
            if port or error.errno != errno.EADDRINUSE or attempt == _BIND_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _bind_all(addresses: Sequence[tuple[int, tuple[object, ...]]]) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    unusable: OSError | None = None
    port = 0
    try:
        for family, address in addresses:
            host, asked_port, *more = address
            try:
                bound = _bind(family, (host, port or asked_port, *more))
            except OSError as error:
                if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    raise
                unusable = error  # e.g. a machine without IPv6
                continue
            sockets.append(bound)
            port = bound.getsockname()[1]
    except BaseException:
        for each in sockets:
            each.close()
        raise
    if not sockets:
        raise unusable or OSError(errno.EADDRNOTAVAIL, "no address")
    return sockets


def _bind(family: int, address: tuple[object, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made
