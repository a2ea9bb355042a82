"""One client's connection: request frames in, response frames out, in order.

Requests start in the order in which they arrive and are answered in that order, but a request
starts while earlier ones still wait for replicas, a flush or data. The socket is not read while too
many requests are in flight, while the client does not read its responses, or while it is throttled
and sends more: a client can slow down only itself.

A handler that returns a coroutine blocks the connection until it is done, as every request does in
Kafka. A handler that returns a future lets the next request start. `connection_state` has the
states and all transitions between them.

A handler may register a `FastPath`: it sees the next frames before dispatch and serves those that
it recognises. The connection is blocked until the fast path responds or falls back.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Final, Protocol, cast

from headrace.broker.network.connection_state import (
    BLOCKED_STATES,
    MUTED_STATES,
    TRANSITIONS,
    ConnectionEvent,
    ConnectionState,
)
from headrace.broker.network.frames import SIZE_BYTES, FrameRefused, ReceiveBuffer
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ProtocolError
from headrace.security.principal import ANONYMOUS
from headrace.security.session import UNKNOWN_CLIENT, Session

log = logging.getLogger(__package__)


JOIN_BELOW_BYTES = 32 * 1024  # below this size, a copy is cheaper than a vectored write
SMALL_PART_BYTES = 4 * 1024  # below this size, a part between large parts is copied
FLUSH_ABOVE_BYTES = 256 * 1024  # larger responses are sent at once, so that back-pressure works
WRITE_HIGH_WATER_BYTES = 1024 * 1024  # unsent responses past this pause the reading of requests
_MAPPED_IPV4 = "::ffff:"  # the prefix of an IPv4 address on a listener for IPv6
LINGER_S = 0.1  # how long a drained connection stays open for the client to read its last responses

# Globals: reading an attribute of an enum class takes 40 ns and a lookup in the table 45 ns, of the
# 490 ns that a request on a fast path spends here. So its transitions are looked up once.
_READY: Final = ConnectionState.READY
_DRAINING: Final = ConnectionState.DRAINING
_LINGERING: Final = ConnectionState.LINGERING
_MUTED: Final = ConnectionState.MUTED
_BLOCK: Final = TRANSITIONS[ConnectionEvent.BLOCK]
_UNBLOCK: Final = TRANSITIONS[ConnectionEvent.UNBLOCK]
_READY_BLOCKED: Final = _BLOCK[_READY]
_READY_UNBLOCKED: Final = _UNBLOCK[_READY_BLOCKED]

Parts = list[bytes | bytearray | memoryview]
Encode = Callable[[object], Parts | None]
Dispatch = Callable[["Connection", memoryview], "Parts | Pipelined | Serial | None"]
"""Starts the request of a frame."""


UNTIMED: Final = -1
MAX_CLIENT_ID_BYTES: Final = 256
"""Of a client id that is kept for the log; a client may send 32 kB."""
_WAITING_APIS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.SHARE_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.CLUSTER_METADATA,
    }
)
"""Requests that wait because their client asks for it, or for other clients."""


class PendingResponse:
    """A response that is not available yet, and how to encode it once it is."""

    __slots__ = ("api", "arrived_s", "encode", "parts", "ready", "result", "started_s")

    def __init__(
        self,
        result: "asyncio.Future[object]",
        encode: Encode,
        api: int = UNTIMED,
        arrived_s: float = 0.0,
        started_s: float = 0.0,
    ) -> None:
        """`api` is the key of a request whose time counts, or `UNTIMED`."""
        self.result = result
        self.encode = encode
        self.api = api
        self.arrived_s = arrived_s
        self.started_s = started_s
        self.parts: Parts | None = None
        self.ready = False


class Pipelined:
    """The result of dispatch for a request that waits while later requests may start."""

    __slots__ = ("encode", "future")

    def __init__(self, future: "asyncio.Future[object]", encode: Encode) -> None:
        self.future = future
        self.encode = encode


class Serial:
    """The result of dispatch for a request that blocks the connection until it is answered."""

    __slots__ = ("coroutine", "encode")

    def __init__(self, coroutine: Coroutine[object, object, object], encode: Encode) -> None:
        self.coroutine = coroutine
        self.encode = encode


class FastPath(Protocol):
    """Serves the frames of one connection that it recognises by their bytes, without dispatch.

    A frame is offered only in the state READY with no response pending, so that a fast path
    cannot change the order of responses.
    """

    @property
    def frame_bytes(self) -> int:
        """The size of the frames that it serves, without the size field; others are not offered."""
        ...

    @property
    def packet_prefix(self) -> bytes:
        """The first bytes of a packet that holds one such frame and nothing else: its size."""
        ...

    @property
    def packet_bytes(self) -> int:
        """The size of that packet."""
        ...

    def try_serve(self, buffer: bytearray | memoryview, at: int) -> bool:
        """Starts the request if it recognises the frame at `at`, which has its size; else returns
        False and changes nothing.

        A request that was started blocks the connection until `Connection.complete_fast_path` or
        `Connection.fall_back`, which may be called only after this method has returned.
        """
        ...


class Owner(Protocol):
    """The part of the server that its connections use."""

    max_frame_bytes: int
    max_in_flight: int
    max_in_flight_bytes: int
    unsent_bytes: int
    slow_request_s: float
    allows_fast_paths: bool

    def dispatch(
        self, connection: "Connection", frame: memoryview
    ) -> Parts | Pipelined | Serial | None: ...

    def opened(self, connection: "Connection") -> bool: ...

    def closed(self, connection: "Connection") -> None: ...

    def monotonic(self) -> float: ...

    def admit_log_line(self, host: str) -> int | None:
        """Whether a line that this client causes may be logged: None if not, else the number of
        its lines that were left out before."""
        ...

    def log_slow_request(
        self, connection: "Connection", api: int, queued_s: float, took_s: float
    ) -> None: ...

    def log_throttled(self, connection: "Connection", duration_s: float) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket."""

    def __init__(
        self,
        owner: Owner,
        loop: asyncio.AbstractEventLoop,
        listener: str,
        security_protocol: str = "PLAINTEXT",
    ) -> None:
        self.listener = listener
        self._security_protocol = security_protocol
        self.peer_certificate: bytes | None = None
        """The certificate with which the client has proved its identity, in DER."""
        self.peer = "unknown"
        self.session = UNKNOWN_CLIENT
        """Whom the connection's requests act for; set when it is open, and by each login."""
        self.dispatch: Dispatch = owner.dispatch
        """Serves the next requests; a login and a session with an end replace it."""
        self.last_active = owner.monotonic()
        self.client_id: str | None = None
        """The client id of the first request that waited, for the log."""
        self.client_software: tuple[str, str] = ("unknown", "unknown")
        self.state = ConnectionState.READY
        self.fast_path: FastPath | None = None
        self.grants: set[object] = set()
        """What handlers remember as allowed here; emptied when ACLs or the session change."""
        self._owner = owner
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._buffer = ReceiveBuffer(owner.max_frame_bytes)
        self._pending: deque[PendingResponse] = deque()  # in request order
        self._ready_bytes = 0  # bytes of responses that wait for an earlier one
        self._out: Parts = []  # responses that are sent together
        self._out_bytes = 0
        self._flush_due = False
        self._unsent_bytes = 0  # unread response bytes, as counted by the owner
        self._reading = True
        self._unmute: asyncio.TimerHandle | None = None  # ends the throttle time
        self._on_close: dict[object, Callable[[], None]] = {}
        self._allows_fast_path = True

    @property
    def in_flight(self) -> int:
        """Requests accepted and not yet answered."""
        return len(self._pending) or int(self.state in BLOCKED_STATES)

    def _change_state(self, event: ConnectionEvent) -> None:
        self.state = TRANSITIONS[event][self.state]

    # --- asyncio callbacks ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer = f"{peer[0]}:{peer[1]}"
            host = str(peer[0]).removeprefix(_MAPPED_IPV4)
            self.session = Session(ANONYMOUS, host, self.listener, self._security_protocol)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        if not self._owner.opened(self):
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.writable()

    def buffer_updated(self, nbytes: int) -> None:
        buffer = self._buffer
        self.last_active = self._owner.monotonic()
        fast_path = self.fast_path
        if (
            fast_path is not None
            and nbytes == fast_path.packet_bytes
            and not buffer.end
            and buffer.bytes[:SIZE_BYTES] == fast_path.packet_prefix  # type: ignore[comparison-overlap]
            and self.state is _READY
            and not self._pending
            and fast_path.try_serve(buffer.bytes, SIZE_BYTES)
        ):
            # On some connections nearly all packets are served here, before they are split into
            # frames.
            buffer.frames += 1
            self.state = _READY_BLOCKED
            return
        if self.state is _LINGERING:
            return
        buffer.received(nbytes)
        read_on = self._serve_frames()
        if read_on is not self._reading:
            self._set_reading(on=read_on)

    def eof_received(self) -> bool:
        return False  # as in Kafka: a client that closes wants no more responses

    def connection_lost(self, exc: Exception | None) -> None:
        self._change_state(ConnectionEvent.LOSE)
        for pending in self._pending:
            pending.result.cancel()
        self._pending.clear()
        self._transport = None
        self.fast_path = None  # breaks a reference cycle with this connection
        self._cancel_unmute()
        self._count_unsent(0)
        self._owner.closed(self)
        for lost in self._on_close.values():
            lost()

    def pause_writing(self) -> None:
        self._change_state(ConnectionEvent.PAUSE_WRITING)
        if self._transport is not None:
            self._count_unsent(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._change_state(ConnectionEvent.RESUME_WRITING)
        self._count_unsent(0)
        self._serve_buffered()

    def _count_unsent(self, size_bytes: int) -> None:
        self._owner.unsent_bytes += size_bytes - self._unsent_bytes
        self._unsent_bytes = size_bytes

    # --- called by the owner --------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """Closes the connection at once, as Kafka does for requests that it cannot answer."""
        if self._transport is not None:
            log.debug("closed a connection", extra={"peer": self.peer, "reason": reason})
            self._transport.abort()

    def on_close(self, key: object, lost: Callable[[], None]) -> None:
        """Calls `lost` when the connection has ended for any reason; one callback per key."""
        self._on_close[key] = lost

    def register_fast_path(self, fast_path: FastPath | None) -> None:
        """Offers the next frames to `fast_path`, which replaces the one before it."""
        if self._owner.allows_fast_paths and self._allows_fast_path:
            self.fast_path = fast_path

    def mute(self, duration_s: float) -> None:
        """Starts no further request for this time: the client has exceeded a quota (KIP-219).

        A longer mute that is in progress remains.
        """
        self._change_state(ConnectionEvent.MUTE)
        if self.state not in MUTED_STATES:  # it drains, or has ended
            return
        self._owner.log_throttled(self, duration_s)
        until_s = self._loop.time() + duration_s
        if self._unmute is not None:
            if self._unmute.when() >= until_s:
                return
            self._unmute.cancel()
        self._unmute = self._loop.call_at(until_s, self._end_mute)

    def _end_mute(self) -> None:
        self._unmute = None
        self._change_state(ConnectionEvent.UNMUTE)
        self._serve_buffered()

    def _cancel_unmute(self) -> None:
        if self._unmute is not None:
            self._unmute.cancel()
            self._unmute = None

    def allow_fast_path(self, *, allowed: bool) -> None:
        """Enables or disables fast paths here; without one, every request passes through
        `dispatch`, which sees that the session of the client has ended."""
        self._allows_fast_path = allowed
        if not allowed:
            self.drop_fast_path()

    def drop_fast_path(self) -> None:
        """Sends the next request through `dispatch`, and has it authorized again."""
        self.fast_path = None
        self.grants.clear()

    def limit_frames(self, max_frame_bytes: int | None) -> None:
        """Refuses larger frames from now on, before memory is allocated for them; None for the
        limit of all authenticated clients."""
        limit = self._owner.max_frame_bytes if max_frame_bytes is None else max_frame_bytes
        self._buffer.max_frame_bytes = limit

    def drain(self) -> None:
        """Starts no further requests; closes when every accepted one has been answered."""
        self._change_state(ConnectionEvent.DRAIN)
        self._cancel_unmute()
        self._set_reading(on=False)
        self._close_when_drained()

    def release_memory(self) -> None:
        self._buffer.release()

    # --- requests -------------------------------------------------------------------------------

    def _serve_buffered(self) -> None:
        """Starts every complete request that may start now; decides whether to continue reading."""
        read_on = self._serve_frames()
        if read_on is not self._reading:
            self._set_reading(on=read_on)

    def _serve_frames(self) -> bool:
        """Whether the next request still needs bytes from the socket."""
        owner = self._owner
        while (
            self.state is _READY
            and len(self._pending) < owner.max_in_flight
            and self._ready_bytes <= owner.max_in_flight_bytes
        ):
            try:
                frame = self._buffer.next_frame()
            except ProtocolError as error:
                self._close_on_invalid_request(error)
                return False
            if frame is None:
                return True
            fast_path = self.fast_path
            if (
                fast_path is not None
                and len(frame) == fast_path.frame_bytes
                and not self._pending
                and fast_path.try_serve(frame, 0)
            ):
                self.state = _READY_BLOCKED
                # The response comes soon: pausing the reading would cost more than reading.
                return True
            if not self._dispatch_frame(frame):
                return False
        # A muted connection is read until its client sends more: a client that waits for the end of
        # its throttle time and closes the connection meanwhile is noticed.
        return self.state is _MUTED and self._buffer.start == self._buffer.end

    def _dispatch_frame(self, frame: memoryview) -> bool:
        """Starts a request; returns whether the connection may serve the next one."""
        try:
            reply = self.dispatch(self, frame)
        except ProtocolError as error:
            self._close_on_invalid_request(error)
            return False
        except Exception:
            log.exception("request failed; closing the connection", extra={"peer": self.peer})
            self.close("internal error")
            return False
        if reply.__class__ is list and not self._pending:
            self._write(reply)  # the usual case
        elif isinstance(reply, list):
            self._add_ready_response(reply)
        elif reply is not None:
            if self.client_id is None:
                self.client_id = _client_id(frame)
            api = frame[1]  # every key is below 256
            self._await_response(reply, UNTIMED if api in _WAITING_APIS else api)
        return True

    def _close_on_invalid_request(self, error: ProtocolError) -> None:
        left_out = self._owner.admit_log_line(self.session.host)
        if left_out is not None:
            fields: dict[str, object] = {"peer": self.peer, "error": str(error)}
            if left_out:
                fields["left_out"] = left_out
            log.warning("invalid request; closing the connection", extra=fields)
        reason = "frame size" if isinstance(error, FrameRefused) else "malformed request"
        self.close(reason)

    def _await_response(self, reply: Pipelined | Serial, api: int) -> None:
        if isinstance(reply, Pipelined):
            future = reply.future
            serial = False
        else:
            future = self._loop.create_task(reply.coroutine)
            serial = True
            self.state = _BLOCK[self.state]
        now_s = 0.0 if api == UNTIMED else self._owner.monotonic()
        pending = PendingResponse(future, reply.encode, api, self.last_active, now_s)
        self._pending.append(pending)
        future.add_done_callback(lambda _: self._finished(pending, serial=serial))

    def _finished(self, pending: PendingResponse, *, serial: bool) -> None:
        if serial:
            self.state = _UNBLOCK[self.state]
        if self._transport is None or pending.result.cancelled():
            return
        try:
            parts = pending.encode(pending.result.result())
        except ProtocolError as error:
            self._close_on_invalid_request(error)
            return
        except Exception:
            log.exception("request failed; closing the connection", extra={"peer": self.peer})
            self.close("internal error")
            return
        if pending.api != UNTIMED:
            took_s = self._owner.monotonic() - pending.started_s
            if took_s >= self._owner.slow_request_s:
                queued_s = max(0.0, pending.started_s - pending.arrived_s)
                self._owner.log_slow_request(self, pending.api, queued_s, took_s)
        self._mark_ready(pending, parts)
        self._write_ready()
        self._serve_buffered()
        self._close_when_drained()

    def complete_fast_path(self, response: bytes) -> None:
        """Sends the response of the request that the fast path serves; the next one may start."""
        state = self.state
        self.state = _READY_UNBLOCKED if state is _READY_BLOCKED else _UNBLOCK[state]
        transport = self._transport
        if transport is None:
            return
        if self._out:
            self._flush()  # earlier responses
        transport.write(response)
        buffer = self._buffer
        if buffer.start != buffer.end or not self._reading:
            self._serve_buffered()
        if self.state is _DRAINING:
            self._close_when_drained()

    def fall_back(self, frame: bytes) -> None:
        """Restarts the request that the fast path serves as an ordinary one, and drops the fast
        path."""
        self.state = _UNBLOCK[self.state]
        self.fast_path = None
        if self._transport is not None:
            self._dispatch_frame(memoryview(frame))
            self._serve_buffered()
            self._close_when_drained()

    # --- responses ------------------------------------------------------------------------------

    def _add_ready_response(self, parts: Parts) -> None:
        if not self._pending:
            self._write(parts)
            return
        done: asyncio.Future[object] = self._loop.create_future()
        pending = PendingResponse(done, _already_encoded)
        self._pending.append(pending)
        self._mark_ready(pending, parts)

    def _mark_ready(self, pending: PendingResponse, parts: Parts | None) -> None:
        pending.parts, pending.ready = parts, True
        self._ready_bytes += sum(map(len, parts or ()))

    def _write_ready(self) -> None:
        while self._pending and self._pending[0].ready:
            parts = self._pending.popleft().parts
            if parts is not None:
                self._ready_bytes -= sum(map(len, parts))
                self._write(parts)

    def _write(self, parts: Parts) -> None:
        if len(parts) == 1:
            self._out.append(parts[0])
            self._out_bytes += len(parts[0])
        else:
            self._out += parts
            self._out_bytes += sum(map(len, parts))
        if self._out_bytes >= FLUSH_ABOVE_BYTES:
            self._flush()
        elif not self._flush_due:
            # After everything that this iteration of the loop has read: a client that sends many
            # small requests gets their responses in one packet, and a process with many connections
            # wakes up once for all of them. A wake-up costs more than the responses.
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if not self._out:
            return
        out, size = self._out, self._out_bytes
        self._out, self._out_bytes = [], 0
        transport = self._transport
        if transport is None:
            return
        if len(out) == 1:
            transport.write(out[0])
        elif size < JOIN_BELOW_BYTES:
            transport.write(b"".join(out))
        else:
            transport.writelines(_merge_small(out))

    def _set_reading(self, *, on: bool) -> None:
        if self._transport is None or self._reading == on or self._transport.is_closing():
            return
        self._reading = on
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _close_when_drained(self) -> None:
        transport = self._transport
        if self.state is _DRAINING and not self._pending and transport is not None:
            self._flush()
            self._change_state(ConnectionEvent.LINGER)
            self._buffer.discard()  # a full buffer would have no room for the bytes to discard
            self._set_reading(on=True)
            with contextlib.suppress(OSError):  # the client has reset the connection
                if transport.can_write_eof():
                    transport.write_eof()
            self._loop.call_later(LINGER_S, transport.abort)


def _merge_small(parts: Parts) -> Parts:
    """Leaves large parts as they are and joins the small ones between them."""
    merged: Parts = []
    small: Parts = []
    for part in parts:
        if len(part) < SMALL_PART_BYTES:
            small.append(part)
            continue
        if small:
            merged.append(b"".join(small))
            small = []
        merged.append(part)
    if small:
        merged.append(b"".join(small))
    return merged


def _client_id(frame: memoryview) -> str | None:
    """The client id in a request's header; None if there is none."""
    size = int.from_bytes(frame[8:10], "big", signed=True)
    if size < 0:
        return None
    return str(frame[10 : 10 + min(size, MAX_CLIENT_ID_BYTES)], "utf-8", "replace")


def _already_encoded(_: object) -> Parts | None:
    return None
