"""One connection to one broker: requests are sent at once, responses arrive in order.

Guarantees:

- Any number of callers may have requests in flight (at most `max_in_flight`; further ones wait).
- Each gets its own response or one `ClientError`. When the connection ends, every pending request
  fails with the reason.
- A request that times out does not affect the others, unless the broker has been silent for
  `max_silence_s`.
- A response that is out of order or was not requested ends the connection, because no later
  response could be trusted.
"""

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar, cast

from headrace.client.errors import (
    BadResponse,
    ClientClosed,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    RequestTimedOut,
    TlsFailed,
    UnsupportedByBroker,
)
from headrace.client.network.frames import Frame, FrameReader, Room
from headrace.protocol.api import APIS, ApiSpec
from headrace.protocol.errors import MalformedMessage, ProtocolError
from headrace.protocol.header import RequestHeader, ResponseHeader
from headrace.protocol.struct import Struct
from headrace.protocol.types import Buffer

R = TypeVar("R", bound=Struct)

# The largest accepted response: a fetch of Kafka's default 50 MB, and one batch beyond it.
MAX_RESPONSE_BYTES = 100 * 1024 * 1024
MAX_IN_FLIGHT = 64
# When a request times out, a broker that has been silent this long is considered dead.
MAX_SILENCE_S = 5.0
SILENT_S = 0.5
"""After this time without an answer, requests for any broker prefer another connection."""
_CLOSE_TIMEOUT_S = 1.0
_MAX_CORRELATION_ID = 2**31 - 1

_SPEC_OF = {f"{spec.name}Request": spec for spec in APIS.values()}


def spec_of(request: Struct) -> ApiSpec:
    """The API of a request."""
    spec = _SPEC_OF.get(type(request).__name__)
    if spec is None:
        raise TypeError(f"{type(request).__name__} is not a request")
    return spec


class Address(NamedTuple):
    """The address of a broker's listener."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class _Pending(NamedTuple):
    correlation_id: int
    answer: asyncio.Future[Frame]


class ClientConnection(asyncio.BufferedProtocol):
    """A connection to a broker. `connect` returns an open one."""

    def __init__(
        self,
        address: Address,
        *,
        client_id: str,
        max_in_flight: int,
        max_silence_s: float,
        room: Room = bytearray,
    ) -> None:
        self.address = address
        self._client_id = client_id
        self._frames = FrameReader(MAX_RESPONSE_BYTES, room)
        self._pending: deque[_Pending] = deque()
        self._slots = asyncio.Semaphore(max_in_flight)
        self._max_silence_s = max_silence_s
        self._last_received_at = 0.0
        self._next_id = 0
        self._transport: asyncio.Transport | None = None
        self._ended: ClientError | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = asyncio.Event()
        self.on_end: Callable[[], None] = lambda: None  # called once, when either side ends it

    @property
    def is_silent(self) -> bool:
        """Whether the broker owes an answer and has sent nothing for a while: it may hang."""
        return bool(self._pending) and self._silence_s() > SILENT_S

    @property
    def is_open(self) -> bool:
        return self._ended is None and self._transport is not None

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        self._last_received_at = asyncio.get_running_loop().time()
        try:
            for frame in self._frames.received(nbytes):
                self._complete_request(frame)
        except BadResponse as error:
            self._end_connection(error)

    def connection_lost(self, exc: Exception | None) -> None:
        detail = f": {exc}" if exc else ""
        self._end_connection(ConnectionLost(f"{self.address} closed the connection{detail}"))
        self._gone.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # Called by users of the connection.

    async def request(
        self,
        request: Struct,
        answer: type[R],
        *,
        version: int,
        timeout_s: float,
        client_id: str | None = None,
    ) -> R:
        """Sends one request in this version and decodes its response.

        `client_id` replaces that of the connection for this request.
        """
        spec = spec_of(request)
        frame = await self.exchange(
            spec, version, request, timeout_s=timeout_s, client_id=client_id
        )
        header_version = spec.response_header_version(version)
        try:
            _, pos = ResponseHeader.read(frame, 0, len(frame), header_version)
            return answer.decode(memoryview(frame)[pos:], version)
        except MalformedMessage as error:
            bad = BadResponse(
                f"{self.address} sent a malformed response to {spec.name} v{version}: {error}"
            )
            self._end_connection(bad)
            raise bad from error

    async def exchange(
        self,
        spec: ApiSpec,
        version: int,
        request: Struct,
        *,
        timeout_s: float,
        client_id: str | None = None,
    ) -> Frame:
        """Sends one request and returns its whole response frame, header included."""
        try:
            async with asyncio.timeout(timeout_s):
                async with self._slots:
                    await self._writable.wait()
                    return await self._send_request(spec, version, request, client_id)
        except TimeoutError:
            late = RequestTimedOut(
                f"{self.address} did not answer {spec.name} v{version} within {timeout_s:.3g} s"
            )
            if self._silence_s() >= self._max_silence_s:
                self._end_connection(late)
            raise late from None

    def start(self, request: Struct, *, version: int) -> asyncio.Future[Frame]:
        """Sends at once, regardless of `max_in_flight`; the whole response frame with its header.

        For callers that limit their requests and apply timeouts themselves.
        """
        return self._send_request(spec_of(request), version, request)

    async def send_only(self, request: Struct, *, version: int) -> None:
        """Sends a request that has no response (Produce with acks=0)."""
        await self._writable.wait()
        self._write_request(spec_of(request), version, request)

    async def close(self) -> None:
        """Ends the connection; pending requests fail with `ClientClosed`."""
        self._end_connection(
            ClientClosed(f"the connection to {self.address} was closed"), flush=True
        )
        if self._transport is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._gone.wait()
        except TimeoutError:
            self._transport.abort()

    def abort(self) -> None:
        """Ends the connection without waiting for data to be sent."""
        self._end_connection(ClientClosed(f"the connection to {self.address} was closed"))

    def _send_request(
        self, spec: ApiSpec, version: int, request: Struct, client_id: str | None = None
    ) -> asyncio.Future[Frame]:
        # No await between taking the id and writing: responses are matched by the write order.
        correlation_id = self._write_request(spec, version, request, client_id)
        loop = asyncio.get_running_loop()
        if not self._pending:
            self._last_received_at = loop.time()
        answer: asyncio.Future[Frame] = loop.create_future()
        self._pending.append(_Pending(correlation_id, answer))
        return answer

    def _write_request(
        self, spec: ApiSpec, version: int, request: Struct, client_id: str | None = None
    ) -> int:
        if self._ended is not None:
            raise _connection_ended(self._ended)
        assert self._transport is not None, "connect() returns after connection_made"
        correlation_id = self._next_id
        header = RequestHeader(
            request_api_key=spec.key,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id=self._client_id if client_id is None else client_id,
        )
        parts: list[Buffer] = []
        header.write(spec.request_header_version(version), parts)
        try:
            request.write(version, parts)
        except ProtocolError as error:
            raise UnsupportedByBroker(
                f"{spec.name} v{version}, the newest that {self.address} serves: {error}"
            ) from error
        self._transport.writelines(_framed(parts))
        self._next_id = 0 if correlation_id == _MAX_CORRELATION_ID else correlation_id + 1
        return correlation_id

    def _complete_request(self, frame: Frame) -> None:
        if not self._pending:
            raise BadResponse(f"{self.address} sent a response without a request")
        expected, answer = self._pending.popleft()
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        # The future is already done if its caller was cancelled; its response still arrives.
        if correlation_id != expected:
            error = BadResponse(
                f"{self.address} answered request {correlation_id} instead of {expected}"
            )
            if not answer.done():
                answer.set_exception(error)
            raise error
        if not answer.done():
            answer.set_result(frame)

    def _silence_s(self) -> float:
        return asyncio.get_running_loop().time() - self._last_received_at

    def _end_connection(self, reason: ClientError, *, flush: bool = False) -> None:
        """Ends the connection and fails pending requests; only the first reason is kept."""
        if self._ended is not None:
            return
        self._ended = reason
        self._writable.set()
        while self._pending:
            _, answer = self._pending.popleft()
            if not answer.done():
                answer.set_exception(_connection_ended(reason))
        if self._transport is not None and flush:
            self._transport.close()
        elif self._transport is not None:
            self._transport.abort()
        self.on_end()


def _connection_ended(reason: ClientError) -> ClientError:
    """A new exception for one pending request; each request needs its own."""
    kind = ClientClosed if isinstance(reason, ClientClosed) else ConnectionLost
    return kind(f"connection ended: {reason}")


def _framed(parts: Sequence[Buffer]) -> list[Buffer]:
    size = sum(len(part) for part in parts)
    return [size.to_bytes(4, "big"), *parts]


def _system_error_text(error: OSError) -> str:
    """The system's text; asyncio's own names the call and repeats the address."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _tls_error_text(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    return f"{error.reason or error} (is this a TLS listener?)"


async def connect(
    address: Address,
    *,
    client_id: str,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
    max_in_flight: int = MAX_IN_FLIGHT,
    max_silence_s: float = MAX_SILENCE_S,
    room: Room = bytearray,
) -> ClientConnection:
    """Opens a connection, encrypted with `tls`; raises `ConnectionFailed` or `TlsFailed`."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            transport, connection = await loop.create_connection(
                lambda: ClientConnection(
                    address,
                    client_id=client_id,
                    max_in_flight=max_in_flight,
                    max_silence_s=max_silence_s,
                    room=room,
                ),
                address.host,
                address.port,
                ssl=tls,
            )
    except TimeoutError:
        raise ConnectionFailed(
            f"cannot connect to {address}: no response within {timeout_s:g} s"
        ) from None
    except ssl.SSLError as error:
        raise TlsFailed(f"TLS handshake with {address} failed: {_tls_error_text(error)}") from error
    except ConnectionError as error:
        if tls is not None and error.errno is None:  # TCP connected; the handshake was interrupted
            raise TlsFailed(
                f"TLS handshake with {address} failed: is this a TLS listener?"
            ) from error
        raise ConnectionFailed(
            f"cannot connect to {address}: {_system_error_text(error)}"
        ) from error
    except OSError as error:
        raise ConnectionFailed(
            f"cannot connect to {address}: {_system_error_text(error)}"
        ) from error
    # If no process listens on an ephemeral port, TCP may connect a socket to itself. The client
    # would read its own requests, and the broker could not bind the port.
    if transport.get_extra_info("sockname") == transport.get_extra_info("peername"):
        transport.abort()
        raise ConnectionFailed(f"cannot connect to {address}: no process listens there")
    return connection
