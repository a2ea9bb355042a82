"""Server-sent events: a handler yields events, the browser's EventSource receives them.

The stream ends when the browser goes away: the generator is then closed, so a `finally` in it
cancels its work. A comment every 15 s keeps proxies from closing a silent stream.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any, Final, NamedTuple

from starlette.responses import Response, StreamingResponse

HEARTBEAT_S: Final = 15.0
MAX_QUEUED: Final = 100
"""A browser that reads slowly slows its search down."""
STOP_TIMEOUT_S: Final = 3.0
logger: Final = logging.getLogger(__name__)


class Event(NamedTuple):
    """One event; `data` is sent as JSON."""

    name: str
    data: object


class Streams:
    """The open streams of the console, which end when it stops."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        self.stopping.set()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_TIMEOUT_S)


def event_stream(events: AsyncGenerator[Event, None], streams: Streams) -> Response:
    """The response; it ends with the events, or when the console stops."""
    return StreamingResponse(
        _encoded(events, streams),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def encode(event: Event) -> bytes:
    # JSON has no raw line breaks, so the data is one line.
    return f"event: {event.name}\ndata: {json.dumps(event.data)}\n\n".encode()


async def _encoded(events: AsyncGenerator[Event, None], streams: Streams) -> AsyncIterator[bytes]:
    """The bytes of the response. The events run in a task of their own.

    When the browser goes away, Starlette cancels each await of the response again and again. The
    generator must not be among them: it could not close its connections.
    """
    queue: asyncio.Queue[Event | None] = asyncio.Queue(MAX_QUEUED)
    pump = streams.start(_pump(events, queue))
    try:
        yield b": connected\n\n"
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    event = await queue.get()
            except TimeoutError:
                yield b": heartbeat\n\n"
                continue
            if event is None:
                return
            yield encode(event)
    finally:
        pump.cancel()


async def _pump(events: AsyncGenerator[Event, None], queue: asyncio.Queue[Event | None]) -> None:
    try:
        async for event in events:
            await queue.put(event)
        await queue.put(None)
    except asyncio.CancelledError:
        while not queue.empty():  # the reader is gone, or the console stops
            queue.get_nowait()
        queue.put_nowait(None)
        raise
    except Exception:
        logger.exception("a stream of events failed")
        await queue.put(Event("ended", {"reason": "error"}))
        await queue.put(None)
    finally:
        await events.aclose()
