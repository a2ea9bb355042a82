"""Server-sent events: a handler yields events, the browser's EventSource receives them.

The stream ends when the browser goes away: the generator is then closed, so a `finally` in it
cancels its work. A comment every 15 s keeps proxies from closing a silent stream.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from starlette.responses import Response, StreamingResponse

HEARTBEAT_S: Final = 15.0


class Event(NamedTuple):
    """One event; `data` is sent as JSON."""

    name: str
    data: object


def event_stream(events: AsyncGenerator[Event, None], stopping: asyncio.Event) -> Response:
    """The response; it ends with the events, or when the console stops."""
    return StreamingResponse(
        _encoded(events, stopping),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def encode(event: Event) -> bytes:
    # JSON has no raw line breaks, so the data is one line.
    return f"event: {event.name}\ndata: {json.dumps(event.data)}\n\n".encode()


async def _encoded(
    events: AsyncGenerator[Event, None], stopping: asyncio.Event
) -> AsyncIterator[bytes]:
    stop = asyncio.ensure_future(stopping.wait())
    next_event: asyncio.Future[Event] | None = None
    try:
        yield b": connected\n\n"
        while True:
            if next_event is None:
                next_event = asyncio.ensure_future(anext(events))
            waited: set[asyncio.Future[Any]] = {stop, next_event}
            done, _ = await asyncio.wait(
                waited, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if stop in done:
                return
            if next_event not in done:
                yield b": heartbeat\n\n"
                continue
            try:
                event = next_event.result()
            except StopAsyncIteration:
                return
            next_event = None
            yield encode(event)
    finally:
        stop.cancel()
        if next_event is not None and not next_event.done():
            next_event.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await next_event
        await events.aclose()
