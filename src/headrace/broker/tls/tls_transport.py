"""The transport of an accepted TLS connection: OpenSSL on a non-blocking socket.

asyncio's and uvloop's own TLS transports keep buffers of hundreds of kilobytes for each connection
that has been busy once. This one decrypts straight into the buffer of its protocol, and keeps at
most `RECEIVE_BYTES` and `ENCRYPT_BYTES` besides.

OpenSSL never reads from the socket itself. It would not return while messages without data arrive,
such as key updates, and one client could stop the event loop.

The protocol is made when the handshake is complete. Until then the transport belongs to
`TlsHandshakes`, which bounds the time and the number of handshakes.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final

RECEIVE_BYTES: Final = 18 * 1024
"""What OpenSSL gets at once: a key update has 27 bytes and costs some microseconds. A connection
keeps a third more than this, and than `ENCRYPT_BYTES`, once it has been busy."""
RECEIVES_PER_WAKE_UP: Final = 8
"""At most this many in one wake-up: then other connections are served."""
RECORD_BYTES: Final = 16 * 1024
"""The most that OpenSSL encrypts in one call: the largest record."""
RECORDS_PER_SEND: Final = 8
"""A call of the system wakes up the client, which costs more than to encrypt a record."""
SENDS_PER_WAKE_UP: Final = 4
MAX_UNSENT_MESSAGES_BYTES: Final = 256 * 1024
"""Of OpenSSL's own messages, to a client that asks for them and does not read them."""
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
        outgoing: ssl.MemoryBIO,
    ) -> None:
        """Takes over an accepted socket, which must not block.

        OpenSSL writes to `outgoing`, which all connections of the loop share. It is empty whenever
        none of them is in a method of OpenSSL.
        """
        super().__init__()
        self._loop = loop
        self._peer = connected.getpeername()
        self._socket = connected
        self._fd = connected.fileno()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = outgoing
        self._tls = context.wrap_bio(self._incoming, outgoing, server_side=True)
        self._unsent = memoryview(b"")  # encrypted bytes that the system did not take yet
        self._unsent_messages = bytearray()  # OpenSSL's own, which follow; empty if `_unsent` is
        self._protocol: asyncio.BufferedProtocol | None = None
        self._backlog: deque[memoryview] = deque()
        self._backlog_bytes = 0
        self._high_water = DEFAULT_HIGH_WATER_BYTES
        self._low_water = DEFAULT_HIGH_WATER_BYTES // 4
        self._writing_paused = False
        self._reading = False
        self._watches_writable = False
        self._ends_when_written: Callable[[], None] | None = None
        self._eof_written = False
        self._closing = False
        self._closed = False

    # --- the handshake --------------------------------------------------------------------------

    def fileno(self) -> int:
        return self._fd

    def continue_handshake(self) -> HandshakeState:
        """Takes the next step with what has arrived; raises `OSError` if the handshake failed."""
        self._receive()
        state = HandshakeState.COMPLETE
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            state = HandshakeState.WANTS_READ
        except ssl.SSLError:
            self._take_encrypted()
            with contextlib.suppress(OSError):
                self._send_encrypted()  # the alert, which says why
            raise
        self._take_encrypted()
        is_sent = self._send_encrypted()
        if state is HandshakeState.WANTS_READ and not is_sent:
            return HandshakeState.WANTS_WRITE
        return state

    def serve(self, protocol: asyncio.BufferedProtocol) -> None:
        """Starts to serve the connection after the handshake."""
        self._protocol = protocol
        protocol.connection_made(self)
        if not self._closing:
            self._watch_writable(bool(self._unsent))
            self.resume_reading()

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's certificate in DER."""
        return self._tls.getpeercert(binary_form=True)

    # --- asyncio.Transport ----------------------------------------------------------------------

    def get_extra_info(self, name: str, default: object = None) -> Any:  # noqa: ANN401
        match name:
            case "peername":
                return self._peer
            case "socket":
                return self._socket
            case "ssl_object":
                return self._tls
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
        if self._has_received():  # the system does not report what was taken from it
            self._loop.call_soon(self._read)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_water = DEFAULT_HIGH_WATER_BYTES if high is None else high
        self._low_water = self._high_water // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._backlog_bytes + len(self._unsent) + len(self._unsent_messages)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_water, self._high_water

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._eof_written or not data:
            return
        self._backlog.append(memoryview(data))
        self._backlog_bytes += len(data)
        self._start_sending()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self._closing or self._eof_written:
            return
        for data in list_of_data:
            if data:
                self._backlog.append(memoryview(data))
                self._backlog_bytes += len(data)
        self._start_sending()

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
            self._read_records(protocol)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._send_encrypted()  # an alert, which says why
            self._end(error)

    def _read_records(self, protocol: asyncio.BufferedProtocol) -> None:
        """Passes on what has arrived."""
        for _ in range(RECEIVES_PER_WAKE_UP):
            # What was left when the protocol paused the reading comes first.
            received = 0 if self._has_received() else self._receive()
            is_end, decrypted = self._decrypt(protocol)
            if is_end and self._reading:
                self._receive_eof(protocol)
            elif self._unsent and not self._closing:
                self._send_own_messages()
            # Less than half are messages without data, which cost more than data.
            if received < RECEIVE_BYTES or 2 * decrypted < received or not self.is_reading():
                return

    def _receive(self) -> int:
        """Takes bytes from the system; returns how many."""
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return 0
        except ConnectionResetError:  # the client has closed the connection with bytes unread
            data = b""
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        return len(data)

    def _has_received(self) -> bool:
        """Whether bytes wait that were taken from the system."""
        return bool(self._tls.pending() or self._incoming.pending)

    def _decrypt(self, protocol: asyncio.BufferedProtocol) -> tuple[bool, int]:
        """Decrypts what was received, until the protocol pauses the reading; returns whether the
        client has ended the stream, and the number of bytes for the protocol."""
        total = 0
        while True:
            buffer = memoryview(protocol.get_buffer(-1))
            if not buffer:
                raise RuntimeError("get_buffer() returned an empty buffer")
            filled, is_end, has_more = 0, False, True
            while has_more and filled < len(buffer):
                size = self._decrypt_into(buffer[filled:])
                filled += max(0, size)
                is_end = not size
                has_more = size > 0 and self._has_received()
            if filled:
                total += filled
                protocol.buffer_updated(filled)
            if not has_more or not self.is_reading():
                return is_end or (self._incoming.eof and not has_more), total

    def _decrypt_into(self, buffer: memoryview) -> int:
        """The bytes decrypted; 0 at the end of the stream, -1 if there is no whole record."""
        try:
            return int(self._tls.read(len(buffer), buffer))
        except ssl.SSLWantReadError:
            return -1
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0
        finally:
            if self._outgoing.pending:
                self._take_encrypted()

    def _receive_eof(self, protocol: asyncio.BufferedProtocol) -> None:
        if not protocol.eof_received():
            self.close()
        else:
            self.pause_reading()

    # --- writing --------------------------------------------------------------------------------

    def _start_sending(self) -> None:
        """Sends what was written, unless earlier bytes wait for the system."""
        if not self._unsent:
            try:
                self._send_backlog()
            except OSError as error:
                self._end_soon(error)
                return
        if self._backlog or self._unsent:
            self._watch_writable(True)
            if self.get_write_buffer_size() > self._high_water and not self._writing_paused:
                self._writing_paused = True
                if self._protocol is not None:
                    self._protocol.pause_writing()

    def _send_backlog(self) -> None:
        """Encrypts and sends as much as the system takes."""
        for _ in range(SENDS_PER_WAKE_UP):
            if not self._send_encrypted() or not self._backlog:
                return
            self._encrypt_backlog()
        self._send_encrypted()

    def _encrypt_backlog(self) -> None:
        """Encrypts what is sent at once."""
        backlog, write = self._backlog, self._tls.write
        try:
            for _ in range(RECORDS_PER_SEND):
                first = backlog[0]
                size = write(first[:RECORD_BYTES])
                self._backlog_bytes -= size
                if size < len(first):
                    backlog[0] = first[size:]
                    continue
                backlog.popleft()
                if not backlog:
                    return
        finally:
            self._take_encrypted()

    def _take_encrypted(self) -> None:
        """Empties the buffer that other connections use next."""
        data = self._outgoing.read()
        if self._unsent:
            self._unsent_messages += data
        else:
            self._unsent = memoryview(data)

    def _send_encrypted(self) -> bool:
        """Whether the system has taken everything that is encrypted."""
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return False
            self._unsent = self._unsent[sent:]
            if self._unsent:
                return False
            if self._unsent_messages:
                self._unsent = memoryview(bytes(self._unsent_messages))
                self._unsent_messages.clear()
        return True

    def _send_own_messages(self) -> None:
        """Sends what OpenSSL answers to messages without data."""
        if not self._watches_writable and self._send_encrypted():
            return
        self._watch_writable(True)
        if len(self._unsent_messages) > MAX_UNSENT_MESSAGES_BYTES:
            raise OSError(errno.ENOBUFS, "the client does not read answers that it asks for")

    def _end_soon(self, error: OSError) -> None:
        """Not while the protocol is writing: it does not expect to lose the connection here."""
        self._closing = True
        self.pause_reading()
        self._loop.call_soon(self._end, error)

    def _write_backlog(self) -> None:
        try:
            self._send_backlog()
        except OSError as error:
            self._end(error)
            return
        if not self._backlog and not self._unsent and not self._closed:
            self._watch_writable(False)
            ending, self._ends_when_written = self._ends_when_written, None
            if ending is not None:
                ending()
        if self._writing_paused and self.get_write_buffer_size() <= self._low_water:
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
        if self._backlog or self._unsent:
            self._ends_when_written = ending
            self._watch_writable(True)
        else:
            ending()

    def _send_close_notify(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # the client has not sent its own yet
            self._tls.unwrap()
            self.pause_reading()  # it has: nothing else follows
        self._take_encrypted()
        with contextlib.suppress(OSError):  # the client is gone
            if not self._send_encrypted():
                self._watch_writable(True)

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
        self._unsent = memoryview(b"")
        self._unsent_messages.clear()
        self._socket.close()
        if self._protocol is not None:
            expected = isinstance(error, OSError) and error.errno in _GONE
            self._loop.call_soon(self._protocol.connection_lost, None if expected else error)
