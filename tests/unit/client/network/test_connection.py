"""One connection: each request gets its response, and every failure ends all pending requests."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace.client.errors import (
    BadResponse,
    ClientClosed,
    ConnectionFailed,
    ConnectionLost,
    RequestTimedOut,
    UnsupportedByBroker,
)
from headrace.client.network.connection import Address, ClientConnection, connect
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headrace.protocol.struct import Struct

Make = Callable[..., Any]


async def _open(broker: Any, **options: Any) -> ClientConnection:
    address = Address("127.0.0.1", broker.port)
    return await connect(address, client_id="test", timeout_s=5, **options)


async def _ask(connection: ClientConnection, key: str = "k", timeout_s: float = 5) -> str:
    answer = await connection.request(
        FindCoordinatorRequest(key=key), FindCoordinatorResponse, version=3, timeout_s=timeout_s
    )
    return answer.host


def _echo(request: Struct, version: int) -> Struct:
    assert isinstance(request, FindCoordinatorRequest)
    return FindCoordinatorResponse(host=request.key)


def test_pipelined_requests_each_get_their_own_answer(make_broker: Make) -> None:
    async def scenario() -> None:
        async with make_broker() as broker:
            broker.handlers[ApiKey.FIND_COORDINATOR] = _echo
            connection = await _open(broker, max_in_flight=8)
            keys = [f"key-{index}" for index in range(50)]
            answers = await asyncio.gather(*(_ask(connection, key) for key in keys))
            assert answers == keys
            assert broker.connections == 1
            await connection.close()

    asyncio.run(scenario())


def test_at_most_max_in_flight_requests_are_sent(make_broker: Make) -> None:
    async def scenario() -> None:
        async with make_broker() as broker:
            broker.handlers[ApiKey.FIND_COORDINATOR] = lambda request, version: None
            broker.handlers[ApiKey.METADATA] = lambda request, version: MetadataResponse()
            connection = await _open(broker, max_in_flight=2)
            asks = [asyncio.create_task(_ask(connection)) for _ in range(5)]
            await broker.until_seen(ApiKey.FIND_COORDINATOR, times=2)
            assert sum(not task.done() for task in asks) == 5
            assert broker.count(ApiKey.FIND_COORDINATOR) == 2
            await connection.close()
            results = await asyncio.gather(*asks, return_exceptions=True)
            assert all(isinstance(result, ClientClosed) for result in results)

    asyncio.run(scenario())


def test_a_cancelled_caller_does_not_affect_the_others(make_broker: Make) -> None:
    async def scenario() -> None:
        async with make_broker() as broker:
            broker.handlers[ApiKey.FIND_COORDINATOR] = _echo
            connection = await _open(broker)
            first = asyncio.create_task(_ask(connection, "first"))
            second = asyncio.create_task(_ask(connection, "second"))
            await asyncio.sleep(0)
            first.cancel()
            assert await second == "second"
            assert await _ask(connection, "third") == "third"
            await connection.close()

    asyncio.run(scenario())


def test_a_closed_connection_fails_every_pending_request(make_broker: Make) -> None:
    async def scenario() -> None:
        async with make_broker() as broker:
            broker.handlers[ApiKey.FIND_COORDINATOR] = lambda request, version: None
            broker.dropped = [ApiKey.METADATA]
            connection = await _open(broker)
            waiting = asyncio.create_task(_ask(connection))
            with pytest.raises(ConnectionLost):
                await connection.request(
                    MetadataRequest(), MetadataResponse, version=12, timeout_s=5
                )
            with pytest.raises(ConnectionLost):
                await waiting
            assert not connection.is_open
            with pytest.raises(ConnectionLost):
                await _ask(connection)

    asyncio.run(scenario())


def test_a_timeout_ends_the_request_and_the_connection_of_a_silent_broker(
    make_broker: Make,
) -> None:
    async def scenario(max_silence_s: float, *, open_after: bool) -> None:
        async with make_broker() as broker:
            broker.handlers[ApiKey.FIND_COORDINATOR] = lambda request, version: None
            connection = await _open(broker, max_silence_s=max_silence_s)
            with pytest.raises(RequestTimedOut):
                await _ask(connection, timeout_s=0.1)
            assert connection.is_open is open_after
            await connection.close()

    asyncio.run(scenario(0.01, open_after=False))
    asyncio.run(scenario(60, open_after=True))


def _framed(correlation_id: int, body: bytes) -> bytes:
    frame = correlation_id.to_bytes(4, "big") + b"\x00" + body
    return len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize(
    "raw",
    [
        b"\x7f\xff\xff\xff",  # a size of 2 GB
        b"\x00\x00\x00\x00",  # too small for a correlation id
        b"\xff\xff\xff\xff",
        b"HTTP/1.1 400 Bad Request\r\n",
        _framed(99, FindCoordinatorResponse(host="h").encode(3)),  # for another request
        b"\x00\x00\x00\x05\x00\x00\x00\x00\x00",  # a truncated response
    ],
)
def test_an_invalid_response_ends_the_connection(raw: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(raw)
        await reader.read(100)
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = await connect(Address("127.0.0.1", port), client_id="test", timeout_s=5)
        with pytest.raises((BadResponse, ConnectionLost)) as caught:
            await _ask(connection)
        assert "127.0.0.1" in str(caught.value) or "claims" in str(caught.value)
        assert not connection.is_open
        await connection.close()
        server.close()

    asyncio.run(scenario())


def test_responses_that_arrive_byte_by_byte_are_assembled() -> None:
    raw = _framed(0, FindCoordinatorResponse(host="slow").encode(3))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        for byte in raw:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        await reader.read(100)
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = await connect(Address("127.0.0.1", port), client_id="test", timeout_s=5)
        assert await _ask(connection) == "slow"
        await connection.close()
        server.close()

    asyncio.run(scenario())


def test_an_address_without_a_listener_is_named_in_the_error(make_broker: Make) -> None:
    async def scenario() -> None:
        async with make_broker() as broker:
            port = broker.port
        with pytest.raises(ConnectionFailed, match=str(port)):
            await connect(Address("127.0.0.1", port), client_id="test", timeout_s=5)

    asyncio.run(scenario())


def test_a_value_that_the_version_cannot_carry_is_refused_before_it_is_sent(
    make_broker: Make,
) -> None:
    async def scenario() -> None:
        async with make_broker() as broker:
            connection = await _open(broker)
            request = MetadataRequest(allow_auto_topic_creation=False)
            with pytest.raises(UnsupportedByBroker):
                await connection.request(request, MetadataResponse, version=3, timeout_s=5)
            assert broker.seen == []
            # The connection is still usable.
            await connection.request(request, MetadataResponse, version=12, timeout_s=5)
            await connection.close()

    asyncio.run(scenario())
