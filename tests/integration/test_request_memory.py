"""Memory grows with the bytes received, never with the sizes that a client claims."""

import struct
from contextlib import ExitStack, suppress

import pytest

from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.records import varint
from headrace.records.codec import Codec, compress
from support.brokers.processes import BrokerProcess, Spawn, answers
from support.waiting import wait_for
from support.wire.batches import batch, fetch_request, produce, with_payload
from support.wire.connection import Wire, frame, request_frame
from support.wire.topics import create_topic

MB = 1 << 20
CLAIMED_BYTES = 50 * MB
HALF_FRAMES = 400
BACKLOG = 50
"""Of these connections at once, none waits a second for the kernel to repeat its first packet."""
BOMB_BYTES = 320 * MB  # over the limit on the decompressed size of a batch
REFUSED = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
}


@pytest.fixture
def broker(spawn: Spawn) -> BrokerProcess:
    broker = spawn()
    with Wire(broker.bootstrap_servers) as wire:  # warm: handlers are imported on first use
        create_topic(wire, "plain")
        create_topic(wire, "opened", 1, {"cleanup.policy": "compact", "max.message.bytes": 64 * MB})
        produce(wire, "plain", batch(b"a"))
        produce(wire, "opened", batch(b"a" * 100, key=b"k", codec=Codec.ZSTD))
    return broker


def grown_mb(broker: BrokerProcess, before: int) -> float:
    return (broker.rss_bytes() - before) / MB


def test_hundreds_of_partial_50_mb_frames_use_little_memory(
    broker: BrokerProcess,
) -> None:
    before = broker.rss_bytes()
    with ExitStack() as opened:
        for number in range(HALF_FRAMES):
            wire = opened.enter_context(Wire(broker.bootstrap_servers))
            wire.send_bytes(struct.pack(">i", CLAIMED_BYTES) + b"\x00\x00\x00\x09\x00\x00")
            if number % BACKLOG == 0:
                assert answers(broker.bootstrap_servers)  # the broker has accepted them all
        with Wire(broker.bootstrap_servers) as healthy:
            assert produce(healthy, "plain", batch(b"still served")).error_code == 0
        assert grown_mb(broker, before) < 32
    assert answers(broker.bootstrap_servers)


def test_clients_that_never_read_responses_share_one_memory_budget(broker: BrokerProcess) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        for _ in range(30):
            produce(wire, "plain", batch(b"x" * 900_000))
    before = broker.rss_bytes()
    greedy = request_frame(
        fetch_request("plain", partition_max_bytes=20 * MB, max_bytes=50 * MB), 12
    )
    with ExitStack() as opened:
        for _ in range(60):
            wire = opened.enter_context(Wire(broker.bootstrap_servers))
            wire.socket.setblocking(False)
            with suppress(BlockingIOError):
                for _ in range(1000):
                    wire.socket.send(greedy)
        with Wire(broker.bootstrap_servers) as healthy:
            assert produce(healthy, "plain", batch(b"still served")).error_code == 0
        assert grown_mb(broker, before) < 256


def test_an_unfinished_frame_uses_only_the_memory_of_received_bytes(broker: BrokerProcess) -> None:
    before = broker.rss_bytes()
    with ExitStack() as opened:
        for _ in range(20):
            wire = opened.enter_context(Wire(broker.bootstrap_servers))
            wire.send_bytes(struct.pack(">i", CLAIMED_BYTES) + bytes(256 * 1024))
        with Wire(broker.bootstrap_servers) as healthy:
            assert produce(healthy, "plain", batch(b"still served")).error_code == 0
        assert grown_mb(broker, before) < 20 * 0.256 * 4 + 16
    wait_for(lambda: grown_mb(broker, before) < 32, "the memory comes back")


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_decompression_bomb_is_rejected_when_the_broker_must_decompress(
    broker: BrokerProcess, codec: Codec
) -> None:
    """One record decompresses to far more than the limit: decompression stops early."""
    bomb = _bomb(codec)
    before = broker.rss_bytes()
    with Wire(broker.bootstrap_servers, timeout_s=60) as wire:
        result = produce(wire, "opened", bomb)
        assert ErrorCode(result.error_code) in REFUSED
        assert produce(wire, "opened", batch(b"b", key=b"k")).base_offset == 1
    assert grown_mb(broker, before) < 300
    wait_for(lambda: grown_mb(broker, before) < 160, "the memory comes back")


def test_a_decompression_bomb_is_stored_as_bytes_when_the_broker_need_not_decompress(
    broker: BrokerProcess,
) -> None:
    small = with_payload(batch(b"x"), compress(Codec.ZSTD, bytes(200 * MB)), codec=Codec.ZSTD)
    before = broker.rss_bytes()
    with Wire(broker.bootstrap_servers) as wire:
        assert produce(wire, "plain", small).error_code in {0, *REFUSED}
    assert grown_mb(broker, before) < 16


def test_a_million_tagged_fields_close_the_connection(broker: BrokerProcess) -> None:
    count = 1_000_000
    fields = b"".join(varint_of(tag) + b"\0" for tag in range(1000, 1000 + count))
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, -1)
    body = frame(head + varint_of(count) + fields + b"\x02a\x02b\0")
    before = broker.rss_bytes()
    with Wire(broker.bootstrap_servers) as wire:
        with suppress(OSError):  # the broker may close it before everything is sent
            wire.send_bytes(body)
        assert wire.ends()
        assert grown_mb(broker, before) < 32
    assert answers(broker.bootstrap_servers)


def varint_of(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bomb(codec: Codec) -> bytes:
    """A batch of one record whose value contains only zeros."""
    value_bytes = BOMB_BYTES
    head = b"\0" + varint.encode(0) + varint.encode(0) + varint.encode(1) + b"k"
    head += varint.encode(value_bytes)
    tail = varint.encode(0)
    size = len(head) + value_bytes + len(tail)
    payload = compress(codec, varint.encode(size) + head + bytes(value_bytes) + tail)
    assert len(payload) < 64 * MB
    return with_payload(batch(b"x", key=b"k"), payload, codec=codec)
