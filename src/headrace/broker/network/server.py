"""Listeners and the connections that they accept, within limits.

The server applies the limits (`connection_limits`) before it reads a byte, and so before a TLS
handshake. A client must authenticate within `headrace.authentication.timeout.ms`. Idle connections
end after `connections.max.idle.ms`.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from math import inf
from typing import Final, Protocol

from headrace.broker.network.acceptor import Acceptor, listening_sockets
from headrace.broker.network.authentication import Authentication, AuthenticationRefused
from headrace.broker.network.client_log import ClientLog
from headrace.broker.network.connection import Connection, Dispatch
from headrace.broker.network.connection_limits import ConnectionQuotas, ServerLimits
from headrace.broker.network.dispatch import Dispatcher
from headrace.broker.runtime.errors import StartupError
from headrace.clock import Clock
from headrace.cluster.image import Endpoint
from headrace.cluster.listeners import ANY_ADDRESS, Listener

log = logging.getLogger(__package__)

RELEASE_MEMORY_AFTER_S = 10.0
AUTHENTICATION_TIMEOUT_S: Final = 30.0
IP_LIMIT_GRACE_S: Final = 0.01


class SecureTransport(Protocol):
    """An open TLS connection that waits for its protocol object."""

    @property
    def peer_certificate(self) -> bytes | None: ...

    def serve(self, connection: Connection) -> None: ...


class Handshake(Protocol):
    """A TLS handshake in progress."""

    def abort(self, reason: str) -> None: ...


class HandshakeStarter(Protocol):
    """The TLS contexts of the listeners."""

    def start_handshake(
        self,
        listener: str,
        connected: socket.socket,
        complete: Callable[[SecureTransport], None],
        failed: Callable[[str], None],
    ) -> Handshake: ...


class _Accepted:
    """An accepted connection, from the first byte on; counted until its socket is closed."""

    __slots__ = ("connection", "deadline", "handshake", "ip", "listener")

    def __init__(self, listener: Listener, ip: str) -> None:
        self.listener = listener
        self.ip = ip
        self.connection: Connection | None = None
        self.handshake: Handshake | None = None
        self.deadline: asyncio.TimerHandle | None = None


class Server:
    """Owns the listening sockets and every open connection of one broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        dispatcher: Dispatcher,
        limits: ServerLimits,
        *,
        accepts_sockets: bool = True,
    ) -> None:
        """`accepts_sockets` is false if only the loop itself can accept connections."""
        self._acceptors: dict[str, Acceptor] = {}  # by listener
        self._bound: list[tuple[Listener, int]] = []  # with the backlog
        self.quotas = ConnectionQuotas()
        self.address_delay_s: Callable[[str], float] = _accept_at_once
        self.apply_limits(limits)
        self.monotonic = clock.monotonic
        self._loop = loop
        self._accepts_sockets = accepts_sockets
        self.dispatch: Dispatch = dispatcher.dispatch
        self._first_dispatch = self.dispatch  # what authentications return
        self.authentication_timeout_s = AUTHENTICATION_TIMEOUT_S
        self.tls: HandshakeStarter | None = None
        self.authentications: dict[str, Authentication] = {}
        """By listener; the clients of other listeners are anonymous."""
        self._throttled: dict[socket.socket, _Accepted] = {}
        self._loop_servers: list[asyncio.Server] = []
        self._connections: dict[Connection, _Accepted] = {}
        self._unauthenticated: set[_Accepted] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self.refused = 0
        """Connections that a limit refused, since the start of the broker."""
        self.failed_handshakes: Counter[str] = Counter()
        """TLS handshakes since the start of the broker, by listener; and those that succeeded:"""
        self.completed_handshakes: Counter[str] = Counter()
        self._client_log = ClientLog(clock.monotonic)
        self.unsent_bytes = 0  # bytes for clients that do not read their responses
        self.allows_fast_paths = True
        self._against_fast_paths: set[str] = set()
        self._all_closed: asyncio.Event | None = None
        self._closing = False

    @property
    def connections(self) -> Collection[Connection]:
        """The open connections."""
        return self._connections.keys()

    def apply_limits(self, limits: ServerLimits) -> None:
        """Sets the limits for connections and requests from now on."""
        self.max_frame_bytes = limits.max_frame_bytes
        self.max_in_flight = limits.max_in_flight
        self.max_in_flight_bytes = limits.max_in_flight_bytes
        self.slow_request_s = limits.slow_request_s or inf
        self._limits = limits
        self._take_over_accepting()
        self._retry_accepting()

    def throttle_addresses(self, delay_s: Callable[[str], float]) -> None:
        """Keeps new connections of an address open for `delay_s` before it closes them; 0 accepts
        them."""
        self.address_delay_s = delay_s
        self._take_over_accepting()

    def _limits_accepts(self, listener: Listener) -> bool:
        """Whether connections must be seen before they are accepted."""
        is_throttled = self.address_delay_s is not _accept_at_once
        return is_throttled or self.quotas.limits_accepts(listener.name, self._limits)

    def _take_over_accepting(self) -> None:
        for listener, _ in self._bound:
            if self._limits_accepts(listener):
                self._acceptors[listener.name].take_over()

    def allow_fast_paths(self, *, allowed: bool, reason: str = "") -> None:
        """Enables or disables fast paths; without them every request passes through `dispatch`.

        Several callers, each with its own reason, may disable them at the same time.
        """
        if allowed:
            self._against_fast_paths.discard(reason)
        else:
            self._against_fast_paths.add(reason)
        self.allows_fast_paths = not self._against_fast_paths
        if not allowed:
            self.drop_fast_paths()

    def replace_dispatch(self, dispatch: Dispatch) -> None:
        """Serves requests with `dispatch` from now on, also those of open connections."""
        before, self.dispatch = self.dispatch, dispatch
        for connection in self._connections:
            if connection.dispatch == before:
                connection.dispatch = dispatch

    def drop_fast_paths(self) -> None:
        """The next request of every connection passes through `dispatch` and is authorized."""
        for connection in self._connections:
            connection.drop_fast_path()

    async def bind(self, listener: Listener, backlog: int) -> int:
        """Binds without accepting yet; returns the port, which the system chooses for port 0."""
        if listener.uses_sasl and listener.name not in self.authentications:
            msg = f"listener {listener.name}: {listener.security_protocol} is not supported yet"
            raise StartupError(msg)
        host = listener.host.strip("[]")
        try:
            if not self._accepts_sockets:
                return await self._bind_loop_server(listener, host)
            sockets = await listening_sockets(self._loop, host or None, listener.port)
        except OSError as error:
            where = host_and_port(host or ANY_ADDRESS, listener.port)
            raise StartupError(f"cannot listen on {where}: {_bind_error(error)}") from error
        size_bytes = self._limits.tls_receive_buffer_bytes
        if listener.uses_tls and size_bytes > 0:
            # Accepted sockets inherit it. The kernel would let it grow to megabytes, with which
            # librdkafka was slower and used more CPU (docs/adr/0027).
            for each in sockets:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)
        acceptor = Acceptor(
            self._loop,
            sockets,
            lambda: self._accept_delay_s(listener.name),
            lambda connected: self._accept(listener, connected),
        )
        self._acceptors[listener.name] = acceptor
        self._bound.append((listener, backlog))
        return acceptor.port

    async def _bind_loop_server(self, listener: Listener, host: str) -> int:
        """Leaves accepting to the loop, as a simulated one does."""
        server = await self._loop.create_server(
            lambda: Connection(self, self._loop, listener.name),
            host or None,
            listener.port,
            start_serving=False,
        )
        self._loop_servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def start(self) -> None:
        for listener, backlog in self._bound:
            by_loop = listener.security_protocol == "PLAINTEXT" and not self._limits_accepts(
                listener
            )
            protocol = partial(Connection, self, self._loop, listener.name) if by_loop else None
            await self._acceptors[listener.name].start(backlog, protocol)
        for server in self._loop_servers:
            await server.start_serving()

    # --- accepting ------------------------------------------------------------------------------

    def _accept_delay_s(self, listener: str) -> float:
        """How long the next connection must wait in the system's queue."""
        delay_s = self.quotas.delay_s(listener, self._limits, self.monotonic())
        if delay_s:
            limit = "max.connections" if delay_s == inf else "max.connection.creation.rate"
            self._client_log.stopped_accepting(listener, limit)
        return delay_s

    def _accept(self, listener: Listener, connected: socket.socket) -> None:
        """Serves an accepted socket, after the TLS handshake if its listener needs one."""
        self.quotas.count_accept(listener.name)
        try:
            connected.setblocking(False)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            host, port, *_ = connected.getpeername()
        except OSError:  # the client has reset the connection
            connected.close()
            return
        if self.quotas.exceeds_ip_limit(host, self._limits):
            # The client may have closed another connection just before.
            self._loop.call_later(
                IP_LIMIT_GRACE_S, self._admit, listener, connected, host, f"{host}:{port}"
            )
        else:
            self._admit(listener, connected, host, f"{host}:{port}")

    def _admit(self, listener: Listener, connected: socket.socket, host: str, peer: str) -> None:
        if self._closing:
            connected.close()
            return
        if self.quotas.exceeds_ip_limit(host, self._limits):
            connected.close()
            self._count_refused(peer, "max.connections.per.ip")
            return
        accepted = _Accepted(listener, host)
        self.quotas.add(listener.name, host)
        delay_s = self.address_delay_s(host)
        if delay_s:
            # Not at once: the client would connect again immediately (KIP-612).
            self._throttled[connected] = accepted
            self._client_log.delayed_connection(host, listener.name, delay_s)
            self._loop.call_later(delay_s, self._close_throttled, connected)
            return
        if listener.security_protocol != "PLAINTEXT":
            accepted.deadline = self._loop.call_later(
                self.authentication_timeout_s, self._end_unauthenticated, accepted
            )
            self._unauthenticated.add(accepted)
        if listener.uses_tls:
            self._start_handshake(accepted, connected)
        else:
            opening = self._loop.create_task(self._open_plaintext(accepted, connected))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _open_plaintext(self, accepted: _Accepted, connected: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._connect(accepted), connected)
        except OSError:
            connected.close()
            self._release(accepted)

    def _start_handshake(self, accepted: _Accepted, connected: socket.socket) -> None:
        assert self.tls is not None  # a broker with such a listener has contexts
        listener = accepted.listener.name

        def complete(transport: SecureTransport) -> None:
            accepted.handshake = None
            self.completed_handshakes[accepted.listener.name] += 1
            connection = self._connect(accepted)
            connection.peer_certificate = transport.peer_certificate
            transport.serve(connection)

        def failed(reason: str) -> None:
            accepted.handshake = None
            self._release(accepted)
            self.failed_handshakes[accepted.listener.name] += 1
            self._client_log.failed_handshake(accepted.ip, listener, reason)

        try:
            accepted.handshake = self.tls.start_handshake(listener, connected, complete, failed)
        except OSError:  # the client has reset the connection
            connected.close()
            self._release(accepted)

    def _connect(self, accepted: _Accepted) -> Connection:
        """The protocol object of an accepted socket that is about to open."""
        listener = accepted.listener
        connection = Connection(self, self._loop, listener.name, listener.security_protocol)
        accepted.connection = connection
        self._connections[connection] = accepted
        return connection

    def _close_throttled(self, connected: socket.socket) -> None:
        """Ends a connection of an address that opens too many. Nothing was read from it."""
        accepted = self._throttled.pop(connected, None)
        if accepted is not None:
            connected.close()
            self._release(accepted)

    def _end_unauthenticated(self, accepted: _Accepted) -> None:
        reason = "not authenticated within headrace.authentication.timeout.ms"
        if accepted.handshake is not None:
            accepted.handshake.abort(reason)
        elif accepted.connection is not None:
            self._client_log.refused_client(accepted.connection.peer, reason)
            accepted.connection.close(reason)

    def _release(self, accepted: _Accepted) -> None:
        """The place of a closed connection is free."""
        self._forget_deadline(accepted)
        self.quotas.remove(accepted.listener.name, accepted.ip)
        self._retry_accepting()

    def _forget_deadline(self, accepted: _Accepted) -> None:
        self._unauthenticated.discard(accepted)
        if accepted.deadline is not None:
            accepted.deadline.cancel()
            accepted.deadline = None

    def _retry_accepting(self) -> None:
        for acceptor in self._acceptors.values():
            acceptor.retry()

    def _count_refused(self, peer: str, limit: str) -> None:
        self.refused += 1
        self._client_log.refused_connection(peer, limit)

    # --- called by connections ------------------------------------------------------------------

    def opened(self, connection: Connection) -> bool:
        if self._closing:  # accepted by the loop before its listener was closed
            return False
        accepted = self._connections.get(connection)
        if accepted is None and not self._count_opened(connection):
            return False
        authentication = self.authentications.get(connection.listener)
        if authentication is not None:
            try:
                dispatch = authentication.start(connection)
                replaced = dispatch == self._first_dispatch
                connection.dispatch = self.dispatch if replaced else dispatch
            except AuthenticationRefused as error:
                self._client_log.refused_client(connection.peer, str(error))
                return False
        if accepted is not None and not accepted.listener.uses_sasl:
            self._forget_deadline(accepted)
        return True

    def _count_opened(self, connection: Connection) -> bool:
        """Applies the limits to a connection that the loop has accepted."""
        ip, listener = connection.session.host, connection.listener
        if self.quotas.delay_s(listener, self._limits, self.monotonic()) == inf:
            self._count_refused(connection.peer, "max.connections")
            return False
        if self.quotas.exceeds_ip_limit(ip, self._limits):
            self._count_refused(connection.peer, "max.connections.per.ip")
            return False
        if self.address_delay_s(ip):
            return False
        accepted = _Accepted(Listener(listener, "", 0, "PLAINTEXT"), ip)
        accepted.connection = connection
        self._connections[connection] = accepted
        self.quotas.add(listener, ip)
        return True

    def admit_log_line(self, host: str) -> int | None:
        """Bounds the lines about invalid requests: clients need no login to send those."""
        return self._client_log.admit_invalid_request(host)

    def log_slow_request(
        self, connection: Connection, api: int, queued_s: float, took_s: float
    ) -> None:
        self._client_log.slow_request(connection, api, queued_s, took_s)

    def log_throttled(self, connection: Connection, duration_s: float) -> None:
        self._client_log.throttled(connection, duration_s)

    def authenticated(self, connection: Connection) -> None:
        """Ends the time limit of a connection whose client has logged in."""
        accepted = self._connections.get(connection)
        if accepted is not None:
            self._forget_deadline(accepted)

    def closed(self, connection: Connection) -> None:
        accepted = self._connections.pop(connection, None)
        if accepted is not None:
            self._release(accepted)
            if self._all_closed is not None and not self._connections:
                self._all_closed.set()

    # --- maintenance ----------------------------------------------------------------------------

    def report_left_out(self) -> None:
        """Logs how many lines about clients were left out."""
        self._client_log.report_left_out()

    def sweep(self) -> None:
        """Ends idle connections and frees the memory of quiet ones."""
        now = self.monotonic()
        for connection in tuple(self._connections):
            quiet_s = now - connection.last_active
            if quiet_s > self._limits.max_idle_s and not connection.in_flight:
                connection.close("idle for longer than connections.max.idle.ms")
            elif quiet_s > RELEASE_MEMORY_AFTER_S:
                connection.release_memory()

    def close_token_sessions(self, is_valid: Callable[[str], bool]) -> None:
        """Closes the sessions of clients that logged in with a delegation token that has ended."""
        for connection in tuple(self._connections):
            token_id = connection.session.token_id
            if token_id is not None and not is_valid(token_id):
                connection.close("its delegation token has expired or was removed")

    def close_listeners(self) -> None:
        self._closing = True
        for acceptor in self._acceptors.values():
            acceptor.close()
        for server in self._loop_servers:
            server.close()
        for accepted in tuple(self._unauthenticated):
            if accepted.handshake is not None:
                accepted.handshake.abort("the broker stops")
        for connected in tuple(self._throttled):
            self._close_throttled(connected)

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


def _accept_at_once(_address: str) -> float:
    """For a broker without `connection_creation_rate` quotas."""
    return 0.0


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
