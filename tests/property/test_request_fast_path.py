"""A fast path changes nothing else about its connection: each request starts once, in order, and
its response keeps its place, wherever packets begin and end."""

import asyncio
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.network.connection import Connection, Parts, Pipelined, Serial
from headrace.broker.network.connection_state import BLOCKED_STATES

SAME = b"same"  # the fast path serves it
LIKE = b"Same"  # has only the same size
LATER = b"late"  # is answered when the test says so, and does not block the connection
REQUESTS = (SAME, LIKE, LATER, b"", b"a longer one")
SIZE_BYTES = 4


def framed(request: bytes) -> bytes:
    return len(request).to_bytes(SIZE_BYTES, "big") + request


class Known:
    """A fast path that serves `SAME`."""

    frame_bytes = len(SAME)
    packet_prefix = framed(SAME)[:SIZE_BYTES]
    packet_bytes = len(framed(SAME))

    def __init__(self, started: list[bytes]) -> None:
        self._started = started

    def try_serve(self, buffer: bytearray | memoryview, at: int) -> bool:
        if bytes(buffer[at : at + len(SAME)]) != SAME:
            return False
        self._started.append(SAME)
        return True


class Owner:
    max_frame_bytes = max_in_flight_bytes = 1000
    max_in_flight = 3
    unsent_bytes = 0
    allows_fast_paths = True
    slow_request_s = float("inf")

    def __init__(self) -> None:
        self.started: list[bytes] = []
        self.futures: list[asyncio.Future[object]] = []

    def dispatch(
        self, connection: Connection, frame: memoryview
    ) -> Parts | Pipelined | Serial | None:
        request = bytes(frame)
        self.started.append(request)
        if request == LATER:
            future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            self.futures.append(future)
            return Pipelined(future, lambda _: [LATER])
        return [request]

    def opened(self, connection: Connection) -> bool:
        return True

    def closed(self, connection: Connection) -> None: ...

    def monotonic(self) -> float:
        return 0.0

    def admit_log_line(self, host: str) -> int | None:
        return 0

    def log_slow_request(
        self, connection: Connection, api: int, queued_s: float, took_s: float
    ) -> None: ...

    def log_throttled(self, connection: Connection, duration_s: float) -> None: ...


class Transport:
    """Records the written bytes and whether the connection reads."""

    def __init__(self) -> None:
        self.written = b""
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None: ...

    def abort(self) -> None: ...

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str) -> None: ...

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


def blocked_by_fast_path(connection: Connection) -> bool:
    return connection.state in BLOCKED_STATES


class Client:
    def __init__(self) -> None:
        self.owner = Owner()
        self.transport = Transport()
        self.connection = Connection(self.owner, asyncio.get_running_loop(), "PLAINTEXT")
        self.connection.connection_made(cast("asyncio.Transport", self.transport))
        self.connection.register_fast_path(Known(self.owner.started))

    async def readable(self) -> None:
        while not self.transport.reading:
            await self.settle()

    def send(self, packet: bytes) -> None:
        room = self.connection.get_buffer(-1)
        room[: len(packet)] = packet
        self.connection.buffer_updated(len(packet))

    async def settle(self) -> None:
        """Answers all pending requests."""
        await asyncio.sleep(0)
        for future in self.owner.futures:
            if not future.done():
                future.set_result(None)
        if blocked_by_fast_path(self.connection):
            self.connection.complete_fast_path(SAME)
        await asyncio.sleep(0)


@given(
    requests=st.lists(st.sampled_from(REQUESTS), max_size=12),
    cuts=st.sets(st.integers(1, 150), max_size=12),
    by_request=st.booleans(),
    settles=st.lists(st.booleans(), min_size=30, max_size=30),
    pauses=st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_requests_start_once_and_are_answered_in_order(
    requests: list[bytes],
    cuts: set[int],
    by_request: bool,
    settles: list[bool],
    pauses: list[bool],
) -> None:
    async def scenario() -> None:
        client = Client()
        stream = b"".join(map(framed, requests))
        ends = sorted(cut for cut in cuts if cut < len(stream))
        packets = [stream[a:b] for a, b in zip([0, *ends], [*ends, len(stream)], strict=True)]
        if by_request:
            packets = [framed(request) for request in requests]
        for packet, settle, pause in zip(packets, settles, pauses, strict=False):
            await client.readable()
            if pause:
                client.connection.pause_writing()
            if packet:
                client.send(packet)
            if pause:
                started = len(client.owner.started)
                client.connection.resume_writing()
                assert len(client.owner.started) >= started
            if settle:
                await client.settle()
        while client.transport.written != b"".join(requests):
            before = client.owner.started[:], client.transport.written
            await client.settle()
            await client.settle()
            assert (client.owner.started, client.transport.written) != before, "nothing happens"
        assert client.owner.started == requests

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_fast_path_serves_one_request_at_a_time() -> None:
    async def scenario() -> None:
        client = Client()
        client.send(framed(SAME))
        assert client.owner.started == [SAME]
        client.send(framed(SAME))
        assert client.owner.started == [SAME]  # blocked until the first has its response
        client.connection.complete_fast_path(SAME)
        assert client.owner.started == [SAME, SAME]
        client.connection.complete_fast_path(SAME)
        assert client.transport.written == SAME + SAME

    asyncio.run(scenario())


def test_a_fast_path_does_not_serve_while_responses_are_unread_or_the_connection_drains() -> None:
    async def scenario() -> None:
        client = Client()
        client.connection.pause_writing()
        client.send(framed(SAME))
        assert client.owner.started == []
        client.connection.resume_writing()
        assert client.owner.started == [SAME]
        client.connection.complete_fast_path(SAME)
        client.connection.drain()
        client.send(framed(SAME))  # it was on its way when the broker began to stop
        assert client.owner.started == [SAME]

    asyncio.run(scenario())


def test_a_part_of_a_longer_request_does_not_take_the_fast_path() -> None:
    async def scenario() -> None:
        longer = framed(SAME + b" but longer")
        client = Client()
        client.send(longer[: Known.packet_bytes])
        assert client.owner.started == []
        client.send(longer[Known.packet_bytes :])
        assert client.owner.started == [SAME + b" but longer"]

    asyncio.run(scenario())


def test_a_packet_of_the_right_size_that_spans_two_requests_does_not_take_the_fast_path() -> None:
    async def scenario() -> None:
        stream = framed(SAME) + framed(b"other")
        client = Client()
        for packet in (stream[:6], stream[6 : 6 + Known.packet_bytes]):
            client.send(packet)
        client.connection.complete_fast_path(SAME)
        client.send(stream[6 + Known.packet_bytes :])
        assert client.owner.started == [SAME, b"other"]

    asyncio.run(scenario())
