"""A connection starts requests in order, answers in order and limits the requests of one client."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress

import pytest

from headrace.broker.network.connection import Connection, Parts, Pipelined, Serial
from headrace.broker.network.connection_state import ConnectionState, IllegalConnectionTransition
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ProtocolError

TIMEOUT_S = 5.0
MUTE_S = 0.03


def encode(answer: object) -> Parts | None:
    return None if answer is None else [str(answer).encode()]


class Owner:
    """Accepts one-letter requests and records them in order."""

    def __init__(self, max_in_flight: int = 10, *, waits_for_all: bool = False) -> None:
        self.waits_for_all = waits_for_all
        self.max_frame_bytes = 1000
        self.max_in_flight = max_in_flight
        self.max_in_flight_bytes = 100
        self.unsent_bytes = 0
        self.allows_fast_paths = True
        self.slow_request_s = float("inf")
        self.now_s = 0.0
        self.slow: list[tuple[int, float, float]] = []
        self.throttled: list[float] = []
        self.started: list[bytes] = []
        self.futures: dict[bytes, asyncio.Future[object]] = {}
        self.gone = asyncio.Event()
        self.asked = asyncio.Event()

    def dispatch(
        self, connection: Connection, frame: memoryview
    ) -> Parts | Pipelined | Serial | None:
        request = bytes(frame)
        self.started.append(request)
        self.asked.set()
        if self.waits_for_all or request.startswith(b"wait"):
            self.futures[request] = asyncio.get_running_loop().create_future()
            return Pipelined(self.futures[request], encode)
        if request.startswith(b"hold"):
            return Serial(self._blocking(request), encode)
        if request == b"silent":
            return None
        if request == b"mute":
            connection.mute(MUTE_S)
        if request == b"bad":
            raise ProtocolError("bad request")
        if request == b"bug":
            raise RuntimeError("a bug in a handler")
        return [request]

    def _blocking(self, request: bytes) -> Coroutine[object, object, object]:
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.futures[request] = future

        async def wait() -> object:
            return await future

        return wait()

    def opened(self, connection: Connection) -> bool:
        self.connection = connection
        return True

    def closed(self, connection: Connection) -> None:
        self.gone.set()

    def monotonic(self) -> float:
        return self.now_s

    def admit_log_line(self, host: str) -> int | None:
        return 0

    def log_slow_request(
        self, connection: Connection, api: int, queued_s: float, took_s: float
    ) -> None:
        self.slow.append((api, queued_s, took_s))

    def log_throttled(self, connection: Connection, duration_s: float) -> None:
        self.throttled.append(duration_s)

    async def until_started(self, *requests: bytes) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while self.started != list(requests):
                self.asked.clear()
                await self.asked.wait()


@asynccontextmanager
async def connected(
    owner: Owner,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(owner, loop, "L"), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield reader, writer
    finally:
        writer.close()
        owner.connection.close("the test is over")
        server.close()
        await asyncio.wait_for(owner.gone.wait(), TIMEOUT_S)


def framed(*requests: bytes) -> bytes:
    return b"".join(len(request).to_bytes(4, "big") + request for request in requests)


async def read(reader: asyncio.StreamReader, count: int) -> bytes:
    return await asyncio.wait_for(reader.readexactly(count), TIMEOUT_S)


def test_a_later_response_waits_for_an_earlier_request() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"wait1", b"A", b"wait2", b"B"))
            await owner.until_started(b"wait1", b"A", b"wait2", b"B")
            owner.futures[b"wait2"].set_result("second")
            owner.futures[b"wait1"].set_result("first")
            assert await read(reader, 13) == b"firstAsecondB"

    asyncio.run(scenario())


def test_a_serial_request_blocks_the_next_one() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"hold", b"A"))
            await owner.until_started(b"hold")
            owner.futures[b"hold"].set_result("done")
            assert await read(reader, 5) == b"doneA"
            assert owner.started == [b"hold", b"A"]

    asyncio.run(scenario())


def test_requests_over_the_limit_start_when_one_is_answered() -> None:
    async def scenario() -> None:
        owner = Owner(max_in_flight=2)
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"wait1", b"wait2", b"wait3"))
            await owner.until_started(b"wait1", b"wait2")
            owner.futures[b"wait1"].set_result("one")
            assert await read(reader, 3) == b"one"
            await owner.until_started(b"wait1", b"wait2", b"wait3")

    asyncio.run(scenario())


def test_responses_queued_behind_an_earlier_request_are_bounded() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with connected(owner) as (reader, writer):
            large = b"x" * 101
            writer.write(framed(b"wait", large, b"A"))
            await owner.until_started(b"wait", large)
            owner.futures[b"wait"].set_result("done")
            assert await read(reader, 106) == b"done" + large + b"A"

    asyncio.run(scenario())


def test_a_request_without_a_response_leaves_no_gap() -> None:
    async def scenario() -> None:
        async with connected(Owner()) as (reader, writer):
            writer.write(framed(b"silent", b"A"))
            assert await read(reader, 1) == b"A"

    asyncio.run(scenario())


def test_a_malformed_request_and_a_bug_both_close_only_their_connection() -> None:
    async def scenario() -> None:
        for request in (b"bad", b"bug"):
            owner = Owner()
            async with connected(owner) as (reader, writer):
                writer.write(framed(request, b"A"))
                with suppress(ConnectionResetError):
                    assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b""
                assert owner.started == [request]

    asyncio.run(scenario())


def test_draining_answers_accepted_requests_and_then_closes() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"wait"))
            await owner.until_started(b"wait")
            owner.connection.drain()
            writer.write(framed(b"A"))
            owner.futures[b"wait"].set_result("done")
            assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b"done"
            assert owner.started == [b"wait"]

    asyncio.run(scenario())


def test_a_disconnected_client_cancels_its_pending_requests() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with connected(owner) as (_, writer):
            writer.write(framed(b"wait"))
            await owner.until_started(b"wait")
            writer.transport.abort()
            await asyncio.wait_for(owner.gone.wait(), TIMEOUT_S)
            assert owner.futures[b"wait"].cancelled()

    asyncio.run(scenario())


class FastPath:
    """Serves the request `fast`; the test responds."""

    frame_bytes = 4
    packet_prefix = b"\0\0\0\4"
    packet_bytes = 8

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def try_serve(self, buffer: bytearray | memoryview, at: int) -> bool:
        if bytes(buffer[at : at + self.frame_bytes]) != b"fast":
            return False
        self._owner.started.append(b"fast")
        self._owner.asked.set()
        return True


@asynccontextmanager
async def with_fast_path(
    owner: Owner, *sent: bytes
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """The fast path serves the first of the requests `sent`, after one that registers it."""
    async with connected(owner) as (reader, writer):
        writer.write(framed(b"A"))
        await owner.until_started(b"A")
        assert await read(reader, 1) == b"A"
        owner.started.clear()
        owner.connection.register_fast_path(FastPath(owner))
        writer.write(framed(*sent))
        await owner.until_started(sent[0])
        yield reader, writer


@pytest.mark.parametrize("sent", [(b"fast",), (b"fast", b"B")])  # one packet, and part of one
def test_a_fast_path_blocks_the_next_request_until_it_responds(sent: tuple[bytes, ...]) -> None:
    async def scenario() -> None:
        owner = Owner()
        async with with_fast_path(owner, *sent) as (reader, _):
            assert owner.started == [b"fast"]
            assert owner.connection.in_flight == 1
            assert owner.connection.state is ConnectionState.BLOCKED
            owner.connection.complete_fast_path(b"done")
            expected = b"done" + b"".join(sent[1:])
            assert await read(reader, len(expected)) == expected
            assert owner.connection.in_flight == 0
            assert owner.connection.state is ConnectionState.READY

    asyncio.run(scenario())


def test_a_fast_path_that_falls_back_keeps_the_place_of_its_request() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with with_fast_path(owner, b"fast", b"B") as (reader, _):
            owner.connection.fall_back(b"slow")
            assert await read(reader, 5) == b"slowB"
            assert owner.connection.fast_path is None

    asyncio.run(scenario())


@pytest.mark.parametrize("falls_back", [False, True])
def test_draining_waits_for_a_fast_path(falls_back: bool) -> None:
    async def scenario() -> None:
        owner = Owner()
        async with with_fast_path(owner, b"fast") as (reader, _):
            owner.connection.drain()
            if falls_back:
                owner.connection.fall_back(b"done")
            else:
                owner.connection.complete_fast_path(b"done")
            assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b"done"

    asyncio.run(scenario())


def test_a_fast_path_does_not_see_requests_behind_a_pending_response() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"wait"))
            await owner.until_started(b"wait")
            owner.connection.register_fast_path(FastPath(owner))
            writer.write(framed(b"fast"))
            await owner.until_started(b"wait", b"fast")
            owner.futures[b"wait"].set_result("first")
            assert await read(reader, 9) == b"firstfast"

    asyncio.run(scenario())


def test_an_owner_can_disable_fast_paths() -> None:
    async def scenario() -> None:
        owner = Owner()
        owner.allows_fast_paths = False
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"A"))
            assert await read(reader, 1) == b"A"
            owner.connection.register_fast_path(FastPath(owner))
            writer.write(framed(b"fast"))
            assert await read(reader, 4) == b"fast"

    asyncio.run(scenario())


def test_a_response_without_a_pending_request_is_rejected() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with connected(owner) as (_, writer):
            writer.write(framed(b"A"))
            await owner.until_started(b"A")
            with pytest.raises(IllegalConnectionTransition, match="the blocking request ended"):
                owner.connection.complete_fast_path(b"done")

    asyncio.run(scenario())


def test_a_muted_connection_answers_first_and_starts_the_next_request_after_the_throttle_time() -> (
    None
):
    async def scenario() -> None:
        owner = Owner()
        loop = asyncio.get_running_loop()
        async with connected(owner) as (reader, writer):
            began_s = loop.time()
            writer.write(framed(b"wait", b"mute", b"A"))
            await owner.until_started(b"wait", b"mute")
            assert owner.connection.state is ConnectionState.MUTED
            owner.futures[b"wait"].set_result("1")  # accepted before: answered meanwhile
            assert await read(reader, 5) == b"1mute"
            assert owner.started == [b"wait", b"mute"]
            assert await read(reader, 1) == b"A"
            assert loop.time() - began_s >= MUTE_S
            assert owner.connection.state is ConnectionState.READY

    asyncio.run(scenario())


def request_of(api: ApiKey, client_id: str = "billing") -> bytes:
    head = api.to_bytes(2, "big") + b"\0\1" + b"\0\0\0\7"
    return head + len(client_id).to_bytes(2, "big") + client_id.encode()


def test_a_request_that_is_answered_late_is_logged_with_its_time() -> None:
    async def scenario() -> tuple[Owner, str | None]:
        owner = Owner(waits_for_all=True)
        owner.slow_request_s = 1.0
        async with connected(owner) as (reader, writer):
            for api in (ApiKey.PRODUCE, ApiKey.HEARTBEAT, ApiKey.FETCH, ApiKey.JOIN_GROUP):
                request = request_of(api)
                owner.now_s = 10.0
                writer.write(framed(request))
                await owner.until_started(request)
                owner.now_s = 10.5 if api is ApiKey.HEARTBEAT else 12.0
                owner.futures[request].set_result("A")
                assert await read(reader, 1) == b"A"
                owner.started.clear()
            return owner, owner.connection.client_id

    owner, client_id = asyncio.run(scenario())
    # Heartbeat was fast enough; Fetch and JoinGroup wait because their clients ask for it.
    assert owner.slow == [(ApiKey.PRODUCE, 0.0, 2.0)]
    assert client_id == "billing"


def test_a_mute_is_logged() -> None:
    async def scenario() -> Owner:
        owner = Owner()
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"mute"))
            assert await read(reader, 4) == b"mute"
        return owner

    assert asyncio.run(scenario()).throttled == [MUTE_S]


def test_the_longest_of_several_mutes_counts() -> None:
    async def scenario() -> None:
        owner = Owner()
        loop = asyncio.get_running_loop()
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"mute"))
            await read(reader, 4)
            began_s = loop.time()
            owner.connection.mute(MUTE_S)
            owner.connection.mute(MUTE_S / 10)
            writer.write(framed(b"A"))
            assert await read(reader, 1) == b"A"
            assert loop.time() - began_s >= MUTE_S

    asyncio.run(scenario())


def test_the_end_of_a_muted_connection_is_noticed_at_once() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"mute"))
            await read(reader, 4)
            owner.connection.mute(1000)
            writer.close()
            await asyncio.wait_for(owner.gone.wait(), TIMEOUT_S)
            assert owner.connection.state is ConnectionState.CLOSED

    asyncio.run(scenario())


def test_a_muted_connection_that_sends_more_is_not_read() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"mute"))
            await read(reader, 4)
            owner.connection.mute(1000)
            writer.write(framed(*[b"A" * 1000] * 8_000))
            with pytest.raises(TimeoutError):  # the sockets' buffers are smaller than the requests
                await asyncio.wait_for(writer.drain(), MUTE_S)
            assert owner.started == [b"mute"]
            writer.transport.abort()

    asyncio.run(scenario())


def test_a_muted_connection_with_a_full_buffer_discards_further_bytes_while_it_drains() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"mute"))
            await owner.until_started(b"mute")
            connection = owner.connection
            connection.mute(1000)
            room = connection.get_buffer(-1)
            room[:] = framed(b"A" * 12) * (len(room) // 16)
            connection.buffer_updated(len(room))
            connection.drain()
            assert len(connection.get_buffer(-1))
            assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b"mute"
            assert owner.started == [b"mute"]

    asyncio.run(scenario())


def test_a_muted_connection_drains_without_waiting_for_the_throttle_time() -> None:
    async def scenario() -> None:
        owner = Owner()
        async with connected(owner) as (reader, writer):
            writer.write(framed(b"wait", b"mute"))
            await owner.until_started(b"wait", b"mute")
            owner.connection.mute(1000)
            owner.connection.drain()
            owner.futures[b"wait"].set_result("1")
            assert await asyncio.wait_for(reader.read(), TIMEOUT_S) == b"1mute"

    asyncio.run(scenario())
