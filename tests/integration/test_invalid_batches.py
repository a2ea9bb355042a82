"""Invalid record batches get an error, are not appended, and keep the connection open."""

import contextlib
import struct
from collections.abc import Callable

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.records.codec import Codec, compress
from support.wire.batches import (
    batch,
    fetch,
    fetch_request,
    patched,
    produce,
    values_of,
    with_payload,
)
from support.wire.connection import ConnectionEnded, Wire
from support.wire.topics import MakeTopic

GOOD = batch(b"hello", b"world", key=b"k")
LENGTH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, COUNT_AT = 8, 16, 17, 21, 23, 57
INT32_MAX = 2**31 - 1

CORRUPT = ErrorCode.CORRUPT_MESSAGE
INVALID = ErrorCode.INVALID_RECORD

LIES = {
    "a byte flipped under the CRC": (patched(GOOD, 30, "b", 9, fix_crc=False), CORRUPT),
    "another CRC": (patched(GOOD, CRC_AT, "I", 1, fix_crc=False), CORRUPT),
    "magic 0": (patched(GOOD, MAGIC_AT, "b", 0, fix_crc=False), INVALID),
    "magic 1": (patched(GOOD, MAGIC_AT, "b", 1, fix_crc=False), INVALID),
    "magic 3": (patched(GOOD, MAGIC_AT, "b", 3, fix_crc=False), CORRUPT),
    "magic -1": (patched(GOOD, MAGIC_AT, "b", -1, fix_crc=False), CORRUPT),
    "more records than there are": (patched(GOOD, COUNT_AT, "i", 5), INVALID),
    "fewer records than there are": (patched(GOOD, COUNT_AT, "i", 1), INVALID),
    "no records": (patched(GOOD, COUNT_AT, "i", 0), INVALID),
    "a negative count": (patched(GOOD, COUNT_AT, "i", -1), INVALID),
    "a huge count": (patched(GOOD, COUNT_AT, "i", INT32_MAX), INVALID),
    "a last offset that is too large": (patched(GOOD, LAST_DELTA_AT, "i", 7), INVALID),
    "a negative last offset": (patched(GOOD, LAST_DELTA_AT, "i", -1), INVALID),
    "a base offset": (patched(GOOD, 0, "q", 5, fix_crc=False), INVALID),
    "one byte more than sent": (
        patched(GOOD, LENGTH_AT, "i", len(GOOD) - 11, fix_crc=False),
        INVALID,
    ),
    "a length of 0": (patched(GOOD, LENGTH_AT, "i", 0, fix_crc=False), CORRUPT),
    "a negative length": (patched(GOOD, LENGTH_AT, "i", -5, fix_crc=False), CORRUPT),
    "a length below the header's": (patched(GOOD, LENGTH_AT, "i", 48, fix_crc=False), CORRUPT),
    "nothing": (b"", INVALID),
    "half a header": (GOOD[:40], INVALID),
    "all but the last byte": (GOOD[:-1], INVALID),
    "noise": (b"\xff" * 100, CORRUPT),
    "two batches": (GOOD + GOOD, INVALID),
    "a control batch": (batch(b"x", key=b"\0\0\0\1", is_control=True), INVALID),
}

# Kafka returns UNKNOWN_SERVER_ERROR for these; any error that identifies the batch is better.
CLUMSY = {
    "a huge length": patched(GOOD, LENGTH_AT, "i", INT32_MAX, fix_crc=False),
    "codec 5": patched(GOOD, ATTRIBUTES_AT, "h", 5),
    "codec 7": patched(GOOD, ATTRIBUTES_AT, "h", 7),
}
ANY_BATCH_ERROR = {
    CORRUPT,
    INVALID,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}


@pytest.mark.parametrize("lie", LIES)
def test_an_invalid_batch_is_rejected_with_kafkas_error(wire: Wire, topic: str, lie: str) -> None:
    data, code = LIES[lie]
    assert ErrorCode(produce(wire, topic, data).error_code) is code
    assert produce(wire, topic, GOOD).base_offset == 0  # nothing of it was appended


@pytest.mark.parametrize("lie", CLUMSY)
def test_batches_that_fail_inside_kafka_are_rejected(wire: Wire, topic: str, lie: str) -> None:
    assert produce(wire, topic, CLUMSY[lie]).error_code in ANY_BATCH_ERROR
    assert produce(wire, topic, GOOD).base_offset == 0


def test_null_records_are_rejected_or_close_the_connection(
    wire: Wire, connect: Callable[[], Wire], topic: str
) -> None:
    wire.socket.settimeout(2)  # Apache Kafka never answers
    with contextlib.suppress(ConnectionEnded, TimeoutError):
        assert produce(wire, topic, None).error_code == INVALID
    assert produce(connect(), topic, GOOD).base_offset == 0


def test_a_transactional_batch_without_a_transaction_is_rejected(wire: Wire, topic: str) -> None:
    data = batch(b"x", is_transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)
    assert produce(wire, topic, data).error_code in {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
        INVALID,
    }
    assert produce(wire, topic, GOOD).base_offset == 0


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_an_invalid_compressed_payload_is_rejected_when_decompressed(
    wire: Wire, make_topic: MakeTopic, codec: Codec
) -> None:
    topic = make_topic(1, {"cleanup.policy": "compact"})
    data = patched(GOOD, ATTRIBUTES_AT, "h", codec)
    assert produce(wire, topic, data).error_code in ANY_BATCH_ERROR
    assert produce(wire, topic, GOOD).base_offset == 0


@pytest.mark.parametrize("codec", list(Codec))
def test_records_that_do_not_match_their_count_are_rejected_when_parsed(
    wire: Wire, make_topic: MakeTopic, codec: Codec
) -> None:
    topic = make_topic(1, {"cleanup.policy": "compact"})
    payload = GOOD[61:]
    for broken in (
        payload + payload[:10],  # bytes after the last record
        payload[:-3],  # the last record is cut
        b"\xff\xff\xff\xff\x0f" + payload,  # a record of two gigabytes
        b"\x01" + payload,  # a record of negative length
        b"",
    ):
        data = with_payload(GOOD, compress(codec, broken) if codec else broken, codec=codec)
        assert produce(wire, topic, data).error_code in ANY_BATCH_ERROR, broken
    consistent = patched(patched(GOOD, COUNT_AT, "i", INT32_MAX), LAST_DELTA_AT, "i", INT32_MAX - 1)
    assert produce(wire, topic, consistent).error_code == INVALID
    assert produce(wire, topic, GOOD).base_offset == 0


def test_unusual_timestamps_are_kept_or_rejected_as_in_kafka(wire: Wire, topic: str) -> None:
    assert produce(wire, topic, batch(b"none", timestamp=-1)).error_code == 0
    future = produce(wire, topic, batch(b"future", timestamp=2**62))
    assert future.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in future.record_errors] == [0]
    assert values_of(fetch(wire, fetch_request(topic)).records) == [b"none"]


def test_a_false_topic_count_closes_only_that_connection(
    wire: Wire, connect: Callable[[], Wire], topic: str
) -> None:
    body = struct.pack(">hhih", 0, 8, 1, -1)  # Produce v8
    body += struct.pack(">hhii", -1, -1, 1000, INT32_MAX)  # two billion topics
    wire.send_bytes(struct.pack(">i", len(body)) + body)
    assert wire.ends()
    assert produce(connect(), topic, GOOD).error_code == 0
