"""Bytes that are not requests, and requests that arrive in unusual pieces."""

import contextlib
import random
import socket
import struct
from collections.abc import Callable

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.metadata import MetadataRequest
from support.waiting import wait_for
from support.wire.batches import batch, fetch, fetch_request, produce, values_of
from support.wire.connection import ConnectionEnded, Wire, frame, request_frame

MAX_REQUEST_BYTES = 104_857_600
"""Kafka's default of socket.request.max.bytes."""
METADATA = APIS[ApiKey.METADATA]

NOT_KAFKA = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "zeros": bytes(4096),
    "ones": b"\xff" * 4096,
    "a header of nothing": frame(b""),
    "a header that is cut": frame(b"\x00\x12\x00"),
    "a client id longer than the frame": frame(struct.pack(">hhih", 18, 0, 1, 30_000)),
}


@pytest.mark.parametrize("kind", NOT_KAFKA)
def test_invalid_bytes_close_the_connection(
    kind: str, wire: Wire, connect: Callable[[], Wire]
) -> None:
    other = connect()
    wire.send_bytes(NOT_KAFKA[kind])
    assert wire.ends()
    other.ask(MetadataRequest(topics=[]), 12)


@pytest.mark.parametrize("size", [-1, -(2**31), MAX_REQUEST_BYTES + 1, 2**31 - 1])
def test_an_out_of_bounds_size_closes_the_connection_at_once(wire: Wire, size: int) -> None:
    wire.send_bytes(struct.pack(">i", size))
    assert wire.ends()


def test_a_frame_of_the_largest_size_is_awaited(wire: Wire) -> None:
    wire.send_bytes(struct.pack(">i", MAX_REQUEST_BYTES) + b"\0\x12")
    wire.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        wire.socket.recv(1)


def test_a_request_can_arrive_byte_by_byte(wire: Wire, topic: str) -> None:
    sent = request_frame(MetadataRequest(topics=[]), 12, correlation_id=9)
    for at in range(len(sent)):
        wire.send_bytes(sent[at : at + 1])
    assert wire.receive(METADATA, 12)[0] == 9


def test_requests_can_arrive_in_arbitrary_pieces(wire: Wire) -> None:
    generator = random.Random(4)
    stream = b"".join(
        request_frame(MetadataRequest(topics=[]), 12, correlation_id=number)
        for number in range(100)
    )
    while stream:
        size = generator.choice((1, 2, 3, 7, 50, 1000))
        wire.send_bytes(stream[:size])
        stream = stream[size:]
    assert [wire.receive(METADATA, 12)[0] for _ in range(100)] == list(range(100))


def test_a_valid_request_before_an_invalid_one_is_answered(wire: Wire) -> None:
    good = request_frame(MetadataRequest(topics=[]), 12, correlation_id=3)
    wire.send_bytes(good)
    assert wire.receive(METADATA, 12)[0] == 3
    wire.send_bytes(good + struct.pack(">i", -1))
    try:
        assert wire.receive(METADATA, 12)[0] == 3
    except ConnectionEnded:
        return  # the close may overtake the response, as in Apache Kafka
    assert wire.ends()


def test_bytes_after_a_body_close_the_connection(wire: Wire, connect: Callable[[], Wire]) -> None:
    whole = request_frame(ApiVersionsRequest(), 0)[4:]
    wire.send_bytes(frame(whole + b"garbage"))
    with contextlib.suppress(ConnectionEnded):
        wire.receive_frame()  # Apache Kafka does not check
    connect().ask(MetadataRequest(topics=[]), 12)


def test_a_client_that_disconnects_mid_request_does_not_affect_others(
    connect: Callable[[], Wire], wire: Wire, topic: str
) -> None:
    for _ in range(20):
        leaving = connect()
        leaving.send_bytes(request_frame(MetadataRequest(topics=[]), 12)[:-3])
        leaving.close()
        resetting = connect()
        resetting.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        resetting.send_bytes(request_frame(fetch_request(topic, max_wait_ms=5000), 12))
        resetting.close()
    assert produce(wire, topic, batch(b"a")).base_offset == 0


def test_a_client_that_half_closes_still_gets_its_response(wire: Wire) -> None:
    wire.send_bytes(request_frame(MetadataRequest(topics=[]), 12, correlation_id=8))
    wire.socket.shutdown(socket.SHUT_WR)
    try:
        assert wire.receive(METADATA, 12)[0] == 8
    except ConnectionEnded:
        return  # Apache Kafka may see the end first
    assert wire.ends()


def test_a_client_that_does_not_read_its_responses_slows_only_itself(
    connect: Callable[[], Wire], wire: Wire, topic: str
) -> None:
    for _ in range(8):
        produce(wire, topic, batch(b"x" * 900_000))
    greedy = connect()
    greedy.socket.setblocking(False)
    request = request_frame(fetch_request(topic, partition_max_bytes=8 << 20), 12)
    sent = 0

    def stuck() -> bool:
        nonlocal sent
        try:
            sent += greedy.socket.send(request)
        except BlockingIOError:
            return True
        return sent > 100 * len(request)

    wait_for(stuck, "the greedy client has asked for a gigabyte")
    values = values_of(fetch(wire, fetch_request(topic, partition_max_bytes=1)).records)
    assert values == [b"x" * 900_000]
