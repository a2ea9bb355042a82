"""The transport of an accepted TLS connection: a non-blocking `SSLSocket` on the event loop.

asyncio's and uvloop's own TLS transports keep buffers of hundreds of kilobytes for each connection
that has been busy once. This one reads records straight into the buffer of its protocol, and
OpenSSL releases its own buffers when a connection is idle.

The protocol is made when the handshake is complete. Until then the transport belongs to
`TlsHandshakes`, which bounds the time and the number of handshakes.
"""

import asyncio
import errno
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from fcntl import ioctl
from termios import FIONREAD
from typing import Any, Final

RECORDS_PER_WAKE_UP: Final = 32
"""After so many records, other connections are served first."""
WRITES_PER_WAKE_UP: Final = 16
NOTHING_WAITS: Final = bytes(4)
DEFAULT_HIGH_WATER_BYTES: Final = 64 * 1024
_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN})


class HandshakeState(Enum):
    """What a handshake waits for."""

    WANTS_READ = 1
    WANTS_WRITE = 2
    COMPLETE = 3


class TlsTransport(asyncio.Transport):
    """Implements what `Connection` uses of asyncio.Transport."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connected: socket.socket,
        context: ssl.SSLContext,
    ) -> None:
        """Takes over an accepted socket, which must not block."""
        super().__init__()
        self._loop = loop
        self._peer = connected.getpeername()
        self._socket = context.wrap_socket(
            connected, server_side=True, do_handshake_on_connect=False
        )
        self._fd = self._socket.fileno()
        self._waiting_bytes = bytearray(NOTHING_WAITS)
        self._protocol: asyncio.BufferedProtocol | None = None
        self._backlog: deque[memoryview] = deque()
        self._backlog_bytes = 0
        self._high_water = DEFAULT_HIGH_WATER_BYTES
        self._low_water = DEFAULT_HIGH_WATER_BYTES // 4
        self._writing_paused = False
        self._reading = False
        self._watches_writable = False
        self._reads_when_writable = False
        self._ends_when_written: Callable[[], None] | None = None
        self._eof_written = False
        self._closing = False
        self._closed = False

    # --- the handshake --------------------------------------------------------------------------

    def fileno(self) -> int:
        return self._fd

    def continue_handshake(self) -> HandshakeState:
        """Takes the next step with what has arrived; raises `OSError` if the handshake failed."""
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            return HandshakeState.WANTS_READ
        except ssl.SSLWantWriteError:
            return HandshakeState.WANTS_WRITE
        return HandshakeState.COMPLETE

    def serve(self, protocol: asyncio.BufferedProtocol) -> None:
        """Starts to serve the connection after the handshake."""
        self._protocol = protocol
        protocol.connection_made(self)
        if not self._closing:
            self.resume_reading()
            # The client may have sent its first request together with the end of the handshake.
            self._loop.call_soon(self._read)

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's certificate in DER."""
        return self._socket.getpeercert(binary_form=True)

    # --- asyncio.Transport ----------------------------------------------------------------------

    def get_extra_info(self, name: str, default: object = None) -> Any:  # noqa: ANN401
        match name:
            case "peername":
                return self._peer
            case "socket" | "ssl_object":
                return self._socket
            case "sockname":
                return self._socket.getsockname()
            case _:
                return default

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if self._reading or self._closing:
            return
        self._reading = True
        self._loop.add_reader(self._fd, self._read)
        if self._socket.pending():  # the system does not report what OpenSSL has read already
            self._loop.call_soon(self._read)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_water = DEFAULT_HIGH_WATER_BYTES if high is None else high
        self._low_water = self._high_water // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._backlog_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_water, self._high_water

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._eof_written or not data:
            return
        view = memoryview(data)
        if not self._backlog:
            view = self._send(view)
        if view and not self._closing:
            self._add_to_backlog(view)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        for data in list_of_data:
            self.write(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Tells the client that no more responses follow, after those that wait have been sent."""
        self._eof_written = True
        self._when_written(self._send_close_notify)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self.pause_reading()
        self._when_written(self._finish_close)

    def abort(self) -> None:
        self._end(None)

    # --- reading --------------------------------------------------------------------------------

    def _read(self) -> None:
        protocol = self._protocol
        if not self._reading or protocol is None:
            return
        try:
            is_drained = self._read_records(protocol)
        except OSError as error:
            self._end(error)
            return
        if not is_drained:
            self._loop.call_soon(self._read)

    def _read_records(self, protocol: asyncio.BufferedProtocol) -> bool:
        """Passes on the records that have arrived; returns whether more arrivals are reported."""
        records = 0
        while records < RECORDS_PER_WAKE_UP:
            buffer = memoryview(protocol.get_buffer(-1))
            filled, has_more = 0, True
            while has_more and filled < len(buffer):
                size = self._read_into(buffer[filled:])
                filled += max(0, size)
                records += 1
                has_more = size > 0 and self._has_more()
            if filled:
                protocol.buffer_updated(filled)
            if not self.is_reading():
                return True
            if not size:
                self._receive_eof(protocol)
                return True
            if not has_more:
                return True
        return False

    def _has_more(self) -> bool:
        """Whether bytes wait in OpenSSL, or in the system.

        To read without any costs 10 times as much as to ask, and clients split large requests into
        records of a few bytes to 16 KiB.
        """
        if self._socket.pending():
            return True
        ioctl(self._fd, FIONREAD, self._waiting_bytes)
        return self._waiting_bytes != NOTHING_WAITS

    def _read_into(self, buffer: memoryview) -> int:
        """The bytes read; 0 at the end of the stream, -1 if nothing has arrived."""
        try:
            return self._socket.recv_into(buffer, len(buffer))
        except ssl.SSLWantReadError:
            return -1
        except ssl.SSLWantWriteError:
            self._reads_when_writable = True
            self._watch_writable(True)
            return -1
        except ssl.SSLZeroReturnError:
            return 0

    def _receive_eof(self, protocol: asyncio.BufferedProtocol) -> None:
        if not protocol.eof_received():
            self.close()
        else:
            self.pause_reading()

    # --- writing --------------------------------------------------------------------------------

    def _send(self, view: memoryview) -> memoryview:
        """Sends as much as the socket takes; returns the rest."""
        try:
            for _ in range(WRITES_PER_WAKE_UP):
                view = view[self._socket.send(view) :]
                if not view:
                    break
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            # Not while the protocol is writing: it does not expect to lose the connection here.
            self._closing = True
            self.pause_reading()
            self._loop.call_soon(self._end, error)
            return view[:0]
        return view

    def _add_to_backlog(self, view: memoryview) -> None:
        self._backlog.append(view)
        self._backlog_bytes += len(view)
        self._watch_writable(True)
        if self._backlog_bytes > self._high_water and not self._writing_paused:
            self._writing_paused = True
            if self._protocol is not None:
                self._protocol.pause_writing()

    def _write_backlog(self) -> None:
        if self._reads_when_writable:
            self._reads_when_writable = False
            self._loop.call_soon(self._read)
        if self._backlog:
            # OpenSSL expects the bytes that it could not send to come again, so they stay first.
            before = self._backlog[0]
            rest = self._send(before)
            self._backlog_bytes -= len(before) - len(rest)
            if rest:
                self._backlog[0] = rest
            else:
                self._backlog.popleft()
        if not self._backlog and not self._closed:
            self._watch_writable(False)
            ending, self._ends_when_written = self._ends_when_written, None
            if ending is not None:
                ending()
        if self._writing_paused and self._backlog_bytes <= self._low_water:
            self._writing_paused = False
            if self._protocol is not None and not self._closed:
                self._protocol.resume_writing()

    def _watch_writable(self, watches: bool) -> None:
        if watches is self._watches_writable or self._closed:
            return
        self._watches_writable = watches
        if watches:
            self._loop.add_writer(self._fd, self._write_backlog)
        else:
            self._loop.remove_writer(self._fd)

    # --- the end --------------------------------------------------------------------------------

    def _when_written(self, ending: Callable[[], None]) -> None:
        if self._backlog:
            self._ends_when_written = ending
        else:
            ending()

    def _send_close_notify(self) -> None:
        try:
            self._socket.unwrap()
        except (OSError, ValueError):
            return  # the client has not sent its own yet, or is gone
        self.pause_reading()  # without the session, bytes would be read as they are

    def _finish_close(self) -> None:
        self._send_close_notify()
        self._loop.call_soon(self._end, None)

    def _end(self, error: Exception | None) -> None:
        """Closes the socket and notifies the protocol, once."""
        if self._closed:
            return
        self._closing = True
        self.pause_reading()
        self._watch_writable(False)
        self._closed = True
        self._backlog.clear()
        self._backlog_bytes = 0
        self._socket.close()
        if self._protocol is not None:
            expected = isinstance(error, OSError) and error.errno in _GONE
            self._loop.call_soon(self._protocol.connection_lost, None if expected else error)
