"""One connection of the HTTP port. h11 parses; this module reads, writes and keeps time.

Guarantees: a client has `timeout_s` to send the head of a request, and as long to read the
response, however slowly bytes come or go. The head is at most `MAX_HEAD_BYTES`, bodies of requests
are not read, and while a response is in progress nothing is read at all. So a connection holds a
few kilobytes of its client, and a client can only delay itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterator, Sequence
from http import HTTPStatus
from typing import Final, Protocol, cast

import h11

from headrace.broker.http.http_message import HttpRequest, HttpResponse, text_response

log = logging.getLogger(__package__)

MAX_HEAD_BYTES: Final = 16 * 1024
KEEP_ALIVE_S: Final = 90.0
"""Between two requests. Prometheus scrapes each minute or more often."""
WRITE_HIGH_WATER_BYTES: Final = 256 * 1024
WRITE_BYTES: Final = 128 * 1024
"""A part of a response that is written at once."""
_FIXED_HEADERS: Final = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))


class HttpOwner(Protocol):
    """The server of a connection."""

    timeout_s: float

    def opened(self, connection: "HttpConnection") -> None: ...

    def closed(self, connection: "HttpConnection") -> None: ...

    def respond(self, request: HttpRequest) -> Awaitable[HttpResponse]: ...


class HttpConnection(asyncio.Protocol):
    """The protocol object of one accepted socket."""

    def __init__(self, owner: HttpOwner, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._loop = loop
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._transport: asyncio.Transport | None = None
        self._host = ""
        self._deadline: asyncio.TimerHandle | None = None
        self._responding: asyncio.Task[None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._sends_body = True
        self.is_idle = False
        """Whether it waits for the next request of its client."""

    # --- asyncio callbacks ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername")
        self._host = str(peer[0]) if peer else ""
        self._set_deadline(self._owner.timeout_s)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self.is_idle:
            self.is_idle = False
            self._set_deadline(self._owner.timeout_s)
        try:
            self._h11.receive_data(data)
        except h11.RemoteProtocolError:  # bytes after a request to close the connection
            self.abort()
            return
        if self._responding is None:
            self._start_request()

    def eof_received(self) -> bool:
        return self._responding is not None  # a client may close its side before it reads

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._clear_deadline()
        if self._responding is not None:
            self._responding.cancel()
        self._may_write.set()
        self._owner.closed(self)

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    # --- called by the server -------------------------------------------------------------------

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # --- requests -------------------------------------------------------------------------------

    def _start_request(self) -> None:
        """Starts the next request if its head is complete."""
        assert self._transport is not None
        try:
            event = self._h11.next_event()
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
            self._respond(self._refuse(status, "the request is not valid HTTP/1.1"))
            return
        if isinstance(event, h11.Request):
            self._sends_body = event.method != b"HEAD"
            request = HttpRequest(
                event.method.decode("ascii"),
                event.target.partition(b"?")[0].decode("latin-1"),
                {name.decode("ascii"): value.decode("latin-1") for name, value in event.headers},
                self._host,
            )
            self._respond(self._owner.respond(request))
        elif isinstance(event, h11.ConnectionClosed):
            self._transport.close()

    async def _refuse(self, status: int, reason: str) -> HttpResponse:
        return text_response(status, reason)

    def _respond(self, answer: Awaitable[HttpResponse]) -> None:
        assert self._transport is not None
        self._set_deadline(self._owner.timeout_s)
        self._transport.pause_reading()
        self._responding = self._loop.create_task(self._send_answer(answer))

    async def _send_answer(self, answer: Awaitable[HttpResponse]) -> None:
        try:
            try:
                response = await answer
            except Exception:
                log.exception("an HTTP request failed", extra={"host": self._host})
                response = text_response(500, "internal error; the broker's log has the reason")
            await self._send(response)
        except h11.LocalProtocolError:  # after a request that was not valid
            self.abort()
        finally:
            self._responding = None
        self._finish_request()

    async def _send(self, response: HttpResponse) -> None:
        headers = [
            ("content-type", response.content_type),
            ("content-length", str(sum(map(len, response.body)))),
            *_FIXED_HEADERS,
            *response.headers,
        ]
        if self._h11.their_state is h11.ERROR:
            headers.append(("connection", "close"))
        reason = HTTPStatus(response.status).phrase.encode("ascii")
        head = h11.Response(status_code=response.status, headers=headers, reason=reason)
        await self._write(self._h11.send(head))
        if self._sends_body:
            for part in _pieces(response.body):
                await self._write(self._h11.send(h11.Data(data=part)))
        await self._write(self._h11.send(h11.EndOfMessage()))

    async def _write(self, data: bytes | None) -> None:
        if data and self._transport is not None:
            self._transport.write(data)
            await self._may_write.wait()
            if len(data) >= WRITE_BYTES:
                await asyncio.sleep(0)  # other connections are served between the parts

    def _finish_request(self) -> None:
        """Continues with the client's next request, or closes."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._h11.our_state is not h11.DONE or not self._has_read_request():
            transport.close()
            return
        self._h11.start_next_cycle()
        self.is_idle = True
        self._set_deadline(KEEP_ALIVE_S)
        transport.resume_reading()
        data, closed = self._h11.trailing_data
        if data or closed:  # the client did not wait for the response
            self.is_idle = False
            self._set_deadline(self._owner.timeout_s)
            self._start_request()

    def _has_read_request(self) -> bool:
        """Whether the request had no body, so that the next one can be found."""
        try:
            return isinstance(self._h11.next_event(), h11.EndOfMessage)
        except h11.RemoteProtocolError:
            return False

    # --- time -----------------------------------------------------------------------------------

    def _set_deadline(self, after_s: float) -> None:
        self._clear_deadline()
        self._deadline = self._loop.call_later(after_s, self.abort)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _pieces(parts: Sequence[bytes]) -> Iterator[bytes]:
    """The body in pieces of at most `WRITE_BYTES`."""
    for part in parts:
        view = memoryview(part)
        for start in range(0, len(part), WRITE_BYTES):
            yield bytes(view[start : start + WRITE_BYTES])
