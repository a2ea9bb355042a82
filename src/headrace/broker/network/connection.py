"""One client's connection: frames in, answers out, in order.

A connection's requests start in the order in which they came and are answered in that order, but
the next one starts while the last still waits for replicas, for a flush or for data. Past the
bound on requests in flight, or while the client does not read its answers, the socket is not
read: what a client sends can slow down that client only.

A handler that answers with a coroutine holds the connection until it is done, as every request
does in Kafka; so does one that says HELD and answers by itself. One that answers with a future
lets the next request start.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Final, Protocol, cast

from headrace.broker.network.frames import SIZE_BYTES, FrameRefused, ReceiveBuffer
from headrace.protocol.errors import ProtocolError

log = logging.getLogger(__name__)


JOIN_BELOW_BYTES = 32 * 1024  # one small copy is cheaper than a vectored write
SMALL_PART_BYTES = 4 * 1024  # so is the copy of a small part beside large ones
FLUSH_ABOVE_BYTES = 256 * 1024  # answers past this leave at once, so that back-pressure is felt
WRITE_HIGH_WATER_BYTES = 1024 * 1024  # unsent answers past this stop the reading of requests
LINGER_S = 0.1  # how long a drained connection stays for the client to read its last answers

Parts = list[bytes | bytearray | memoryview]
Encode = Callable[[object], Parts | None]


class Waiting:
    """An answer that is not there yet, and how to write it once it is."""

    __slots__ = ("encode", "parts", "ready", "result")

    def __init__(self, result: "asyncio.Future[object]", encode: Encode) -> None:
        self.result = result
        self.encode = encode
        self.parts: Parts | None = None
        self.ready = False


class Pipelined:
    """What dispatch returns for a request that waits while later ones may start."""

    __slots__ = ("encode", "future")

    def __init__(self, future: "asyncio.Future[object]", encode: Encode) -> None:
        self.future = future
        self.encode = encode


class Serial:
    """What dispatch returns for a request that holds the connection until it is answered."""

    __slots__ = ("coroutine", "encode")

    def __init__(self, coroutine: Coroutine[object, object, object], encode: Encode) -> None:
        self.coroutine = coroutine
        self.encode = encode


class Held:
    """What dispatch returns for a request that `answer_held` or `start_again` is called for."""


HELD: Final = Held()


class Repeated(Protocol):
    """A request that comes again and again, known by its bytes."""

    @property
    def was_of_use(self) -> bool:
        """Whether it has come again."""
        ...

    @property
    def size_bytes(self) -> int:
        """Of its frame."""
        ...

    @property
    def packet_start(self) -> bytes:
        """What a packet begins with that holds this request and nothing else: the frame's size."""
        ...

    @property
    def packet_bytes(self) -> int:
        """The size of that packet."""
        ...

    def again(self, buffer: bytearray | memoryview, at: int) -> bool:
        """Whether the frame of its size at `at` is it. It is under way then, and the connection
        must be held."""
        ...


class Owner(Protocol):
    """What a connection needs from the server that accepted it."""

    max_frame_bytes: int
    max_in_flight: int
    max_in_flight_bytes: int
    unsent_bytes: int

    def dispatch(
        self, connection: "Connection", frame: memoryview
    ) -> Parts | Pipelined | Serial | Held | None: ...

    def opened(self, connection: "Connection") -> bool: ...

    def closed(self, connection: "Connection") -> None: ...

    def monotonic(self) -> float: ...


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket."""

    def __init__(self, owner: Owner, loop: asyncio.AbstractEventLoop, listener: str) -> None:
        self.listener = listener
        self.peer = "unknown"
        self.last_active = owner.monotonic()
        self.client_software: tuple[str, str] = ("unknown", "unknown")
        self.remembered: Repeated | None = None  # what may come again
        self._owner = owner
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._buffer = ReceiveBuffer(owner.max_frame_bytes)
        self.waiting: deque[Waiting] = deque()  # answers of requests that did not hold it
        self._out: Parts = []  # answers that leave together
        self._out_bytes = 0
        self._flush_due = False
        self._held_bytes = 0  # of answers that are ready and wait for an earlier one
        self._held = False  # a serial request is under way
        self._write_paused = False
        self._unsent_bytes = 0  # what the client has not read, as counted by the owner
        self._reading = True
        self._draining = False  # no further requests are started
        self._lingering = False  # all is answered; what still arrives is thrown away
        self._on_close: dict[object, Callable[[], None]] = {}

    @property
    def in_flight(self) -> int:
        """Requests accepted and not yet answered."""
        return len(self.waiting) or int(self._held)

    # --- asyncio's side -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer = f"{peer[0]}:{peer[1]}"
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        if not self._owner.opened(self):
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.writable()

    def buffer_updated(self, nbytes: int) -> None:
        if self._lingering:
            return
        buffer = self._buffer
        self.last_active = self._owner.monotonic()
        repeated = self.remembered
        if (
            repeated is not None
            and nbytes == repeated.packet_bytes
            and not buffer.end
            and buffer.bytes.startswith(repeated.packet_start)
            and not (self._held or self.waiting or self._write_paused or self._draining)
            and repeated.again(buffer.bytes, SIZE_BYTES)
        ):
            # The shortest way, for what nearly all packets of some connections are.
            buffer.frames += 1
            self._held = True
            return
        buffer.received(nbytes)
        read_on = self._serve_frames()
        if read_on is not self._reading:
            self._read(on=read_on)

    def eof_received(self) -> bool:
        return False  # as Kafka: a client that closes wants no more answers

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in self.waiting:
            waiting.result.cancel()
        self.waiting.clear()
        self._transport = None
        self.remembered = None  # it may know this connection, and cycles are collected late
        self._count_unsent(0)
        self._owner.closed(self)
        for lost in self._on_close.values():
            lost()

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._transport is not None:
            self._count_unsent(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._write_paused = False
        self._count_unsent(0)
        self._serve_buffered()

    def _count_unsent(self, size_bytes: int) -> None:
        self._owner.unsent_bytes += size_bytes - self._unsent_bytes
        self._unsent_bytes = size_bytes

    # --- the owner's side -----------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """Ends the connection at once, as Kafka does for requests that it cannot answer."""
        if self._transport is not None:
            log.info("closed a connection", extra={"peer": self.peer, "reason": reason})
            self._transport.abort()

    def on_close(self, key: object, lost: Callable[[], None]) -> None:
        """`lost` is called when the connection has ended, however it did; one for each key."""
        self._on_close[key] = lost

    def drain(self) -> None:
        """Takes no further requests; closes when what was accepted has been answered."""
        self._draining = True
        self._read(on=False)
        self._close_when_drained()

    def release_memory(self) -> None:
        self._buffer.release()

    # --- requests -------------------------------------------------------------------------------

    def _serve_buffered(self) -> None:
        """Starts every whole request that may start now; decides whether to read on."""
        read_on = self._serve_frames()
        if read_on is not self._reading:
            self._read(on=read_on)

    def _serve_frames(self) -> bool:
        """Whether the next request still needs bytes from the socket."""
        owner = self._owner
        while not (
            self._held
            or self._write_paused
            or self._draining
            or self._transport is None
            or len(self.waiting) >= owner.max_in_flight
            or self._held_bytes > owner.max_in_flight_bytes
        ):
            try:
                frame = self._buffer.next_frame()
            except ProtocolError as error:
                self._refuse(error)
                return False
            if frame is None:
                return True
            if not self._start(frame):
                # A held request is answered soon: to stop reading would cost more than to read.
                return self._held
        return False

    def _start(self, frame: memoryview) -> bool:
        """Whether the next request may be looked at."""
        try:
            reply = self._owner.dispatch(self, frame)
        except ProtocolError as error:
            self._refuse(error)
            return False
        except Exception:
            log.exception("a request failed", extra={"peer": self.peer})
            self.close("internal error")
            return False
        if reply is HELD:
            self._held = True
            return False
        if reply.__class__ is list and not self.waiting:
            self._write(reply)  # nearly always
        elif isinstance(reply, list):
            self._answer(reply)
        elif reply is not None:
            self._wait_for(cast("Pipelined | Serial", reply))
        return True

    def _refuse(self, error: ProtocolError) -> None:
        log.warning("refused a request", extra={"peer": self.peer, "error": str(error)})
        reason = "frame size" if isinstance(error, FrameRefused) else "malformed request"
        self.close(reason)

    def _wait_for(self, reply: Pipelined | Serial) -> None:
        if isinstance(reply, Pipelined):
            future = reply.future
            serial = False
        else:
            future = self._loop.create_task(reply.coroutine)
            serial = True
        waiting = Waiting(future, reply.encode)
        self._held = serial
        self.waiting.append(waiting)
        future.add_done_callback(lambda _: self._finished(waiting, serial=serial))

    def _finished(self, waiting: Waiting, *, serial: bool) -> None:
        if serial:
            self._held = False
        if self._transport is None or waiting.result.cancelled():
            return
        try:
            parts = waiting.encode(waiting.result.result())
        except ProtocolError as error:
            self._refuse(error)
            return
        except Exception:
            log.exception("a request failed", extra={"peer": self.peer})
            self.close("internal error")
            return
        self._is_ready(waiting, parts)
        self._write_ready()
        self._serve_buffered()
        self._close_when_drained()

    def answer_held(self, part: bytes) -> None:
        """The answer of the request that held the connection; the next one may start."""
        self._held = False
        transport = self._transport
        if transport is None:
            return
        if self._out:
            self._flush()  # earlier answers
        transport.write(part)
        buffer = self._buffer
        if buffer.start != buffer.end or not self._reading:
            self._serve_buffered()
        if self._draining:
            self._close_when_drained()

    def start_again(self, frame: bytes) -> None:
        """Starts the request that held the connection anew, without a shortcut."""
        self._held = False
        self.remembered = None
        if self._transport is not None:
            self._start(memoryview(frame))
            self._serve_buffered()
            self._close_when_drained()

    # --- answers --------------------------------------------------------------------------------

    def _answer(self, parts: Parts) -> None:
        if not self.waiting:
            self._write(parts)
            return
        done: asyncio.Future[object] = self._loop.create_future()
        waiting = Waiting(done, _already_encoded)
        self.waiting.append(waiting)
        self._is_ready(waiting, parts)

    def _is_ready(self, waiting: Waiting, parts: Parts | None) -> None:
        waiting.parts, waiting.ready = parts, True
        self._held_bytes += sum(map(len, parts or ()))

    def _write_ready(self) -> None:
        while self.waiting and self.waiting[0].ready:
            parts = self.waiting.popleft().parts
            if parts is not None:
                self._held_bytes -= sum(map(len, parts))
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
            # After everything that this turn of the loop has read: a client that sends many small
            # requests gets their answers in one packet, and one process that holds many
            # connections is woken once for all of them, which costs more than the answers.
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

    def _read(self, *, on: bool) -> None:
        if self._transport is None or self._reading == on or self._transport.is_closing():
            return
        self._reading = on
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _close_when_drained(self) -> None:
        transport = self._transport
        if self._draining and not self.in_flight and transport is not None and not self._lingering:
            # Closing a socket with unread bytes resets it, and a reset can overtake the last
            # answers. So say that no more will come, and give the client a moment to read.
            self._flush()
            self._lingering = True
            self._read(on=True)
            with contextlib.suppress(OSError):  # the client has reset the connection
                transport.write_eof()
            self._loop.call_later(LINGER_S, transport.abort)


def _merge_small(parts: Parts) -> Parts:
    """Payloads stay as they are; what lies between them becomes one buffer each."""
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


def _already_encoded(_: object) -> Parts | None:
    return None
