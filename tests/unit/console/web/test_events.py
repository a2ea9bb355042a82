"""Server-sent events: encoding, and the end of a stream."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.responses import StreamingResponse

from headrace.console.web.events import Event, Streams, encode, event_stream


def test_line_breaks_in_data_cannot_begin_another_event() -> None:
    encoded = encode(Event("record", {"value": "a\n\nevent: ended\ndata: {}"}))
    assert encoded.count(b"\n\n") == 1


async def _received(events: AsyncGenerator[Event, None], streams: Streams) -> bytes:
    response = event_stream(events, streams)
    assert isinstance(response, StreamingResponse)
    parts = [part async for part in response.body_iterator]
    return b"".join(part if isinstance(part, bytes) else str(part).encode() for part in parts)


def test_all_events_of_a_fast_generator_arrive() -> None:
    async def events() -> AsyncGenerator[Event, None]:
        for number in range(1000):
            yield Event("record", number)

    received = asyncio.run(_received(events(), Streams()))
    assert received.count(b"event: record") == 1000


def test_a_generator_is_closed_when_the_console_stops() -> None:
    closed = []

    waiting = asyncio.Event()

    async def events() -> AsyncGenerator[Event, None]:
        try:
            yield Event("record", 1)
            waiting.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # as the close of a connection
            closed.append(True)

    async def main() -> None:
        streams = Streams()
        reading = asyncio.create_task(_received(events(), streams))
        await waiting.wait()
        await streams.stop()
        await reading

    asyncio.run(main())
    assert closed == [True]


def test_a_failure_ends_the_stream_with_an_event() -> None:
    async def events() -> AsyncGenerator[Event, None]:
        yield Event("record", 1)
        raise RuntimeError("broken")

    assert b'event: ended\ndata: {"reason": "error"}' in asyncio.run(_received(events(), Streams()))
