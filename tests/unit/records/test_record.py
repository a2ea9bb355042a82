"""Records: reading and building batches, compared with Apache Kafka's."""

import pytest

from headrace.records.batch_header import HEADER_SIZE, TimestampType, check_batch, read_header
from headrace.records.codec import Codec
from headrace.records.errors import (
    CorruptBatch,
    DecompressedTooLarge,
    InvalidBatch,
    MalformedRecord,
    RecordError,
    TruncatedBatch,
)
from headrace.records.record import Record, build_batch, iter_records

MAX_BYTES = 1_000_000

# Written by Apache Kafka 4.3.1's MemoryRecordsBuilder: base offset 100, producer 7, epoch 3,
# sequence 40, transactional, leader epoch 9.
BY_KAFKA = {
    Codec.NONE: "00000000000000640000005d000000090272c10fa90010000000020000018bcfe568000000018bcf"
    "e5680500000000000000070003000000280000000318000000026b0a76616c75650026000a02010c6e6f206b6579"
    "0402680278026e011400060408676f6e650100",
    Codec.GZIP: "0000000000000064000000710000000902dc6e12850011000000020000018bcfe568000000018bcf"
    "e568050000000000000007000300000028000000031f8b08000000000000ff9360606060cae62a4bcc294d655063"
    "e06262e4c9cb57c84ead6461ca60aa60ca6314616063e148cfcf4b6564000084c8be5e2c000000",
    Codec.SNAPPY: "0000000000000064000000730000000902c06875370012000000020000018bcfe568000000018b"
    "cfe5680500000000000000070003000000280000000382534e415050590000000001000000010000002e2cac1800"
    "0000026b0a76616c75650026000a02010c6e6f206b65790402680278026e011400060408676f6e650100",
    Codec.LZ4: "00000000000000640000006c000000090283156a910013000000020000018bcfe568000000018bcfe"
    "5680500000000000000070003000000280000000304224d186040822c00008018000000026b0a76616c756500260"
    "00a02010c6e6f206b65790402680278026e011400060408676f6e65010000000000",
    Codec.ZSTD: "0000000000000064000000690000000902b74617b30014000000020000018bcfe568000000018bcf"
    "e5680500000000000000070003000000280000000328b52ffd005860010018000000026b0a76616c75650026000a"
    "02010c6e6f206b65790402680278026e011400060408676f6e650100010000",
}
RECORDS = [
    Record(100, 1_700_000_000_000, b"k", b"value"),
    Record(101, 1_700_000_000_005, None, b"no key", (("h", b"x"), ("n", None))),
    Record(102, 1_700_000_000_003, b"gone", None),
]


@pytest.mark.parametrize("codec", Codec)
def test_batches_written_by_kafka_are_read(codec: Codec) -> None:
    batch = bytes.fromhex(BY_KAFKA[codec])
    header = read_header(batch)
    check_batch(batch, 0, header)
    assert header.codec is codec
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 40)
    assert header.max_timestamp == 1_700_000_000_005
    assert list(iter_records(batch, max_bytes=MAX_BYTES)) == RECORDS


def test_an_uncompressed_batch_is_byte_for_byte_kafkas() -> None:
    built = build_batch(
        RECORDS,
        leader_epoch=9,
        producer_id=7,
        producer_epoch=3,
        base_sequence=40,
        is_transactional=True,
    )
    assert built.hex() == BY_KAFKA[Codec.NONE]


def test_a_cleaned_batch_keeps_its_range_and_its_delete_horizon() -> None:
    batch = build_batch(RECORDS[1:2], base_offset=100, last_offset=110, delete_horizon_ms=5_000)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset) == (100, 110)
    assert header.has_delete_horizon
    assert header.base_timestamp == 5_000
    assert list(iter_records(batch, max_bytes=MAX_BYTES)) == RECORDS[1:2]


def test_a_batch_without_records_still_spans_offsets() -> None:
    batch = build_batch([], base_offset=5, last_offset=8, max_timestamp=77)
    header = read_header(batch)
    assert (header.record_count, header.last_offset, header.max_timestamp) == (0, 8, 77)
    assert list(iter_records(batch, max_bytes=MAX_BYTES)) == []
    with pytest.raises(InvalidBatch):
        build_batch([])


def test_attributes_are_written() -> None:
    header = read_header(
        build_batch(RECORDS, is_control=True, timestamp_type=TimestampType.LOG_APPEND_TIME)
    )
    assert header.is_control
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_offsets_must_grow_within_the_batch() -> None:
    with pytest.raises(MalformedRecord):
        build_batch([RECORDS[1], RECORDS[0]], last_offset=200, base_offset=0)
    with pytest.raises(InvalidBatch):
        build_batch([Record(0, 0, None, None), Record(2**31, 0, None, None)])


def test_a_field_that_does_not_fit_the_header_is_named() -> None:
    with pytest.raises(InvalidBatch):
        build_batch(RECORDS, producer_epoch=2**15)


def test_header_names_that_are_not_utf8_survive_a_rewrite() -> None:
    batch = build_batch([Record(0, 0, None, None, (("a\udcff", b""),))])
    assert b"a\xff" in batch
    (record,) = iter_records(batch, max_bytes=MAX_BYTES)
    assert build_batch([record]) == batch


def _with_payload(payload: bytes, count: int) -> bytes:
    """A batch of any payload and count; iterating does not look at the checksum."""
    batch = bytearray(build_batch([], base_offset=0, last_offset=0) + payload)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    return bytes(batch)


ONE = build_batch([Record(0, -1, b"k", b"v")])[HEADER_SIZE:]


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (ONE, 2),
        (ONE, 0),
        (ONE, -1),
        (ONE, 2**31 - 1),
        (ONE + b"\x00", 1),
        (b"\x01" + ONE[1:], 1),  # a length of -1
        (b"\x80" * 12, 1),  # a length that never ends
        (b"\xfe\xff\xff\xff\x0f" + ONE[1:], 1),  # a length of 2 GB
        (b"\x12" + ONE[1:], 1),  # a byte longer than what follows
        (b"\x0e" + ONE[1:], 1),  # a byte shorter than its fields
        (b"\x10\x00\x00\x00\x7e" + ONE[5:], 1),  # a key longer than the record
        (b"\x0e\x00\x00\x00\x01\x01\x02\x01", 1),  # a header without a name
        (b"\x0e\x00\x00\x00\x01\x01\x01\x00", 1),  # -1 headers
        (b"\x0e\x00\x00\x00\x01\x01\x7e\x00", 1),  # 63 headers in a byte
    ],
)
def test_records_with_wrong_lengths_are_refused(payload: bytes, count: int) -> None:
    with pytest.raises((MalformedRecord, InvalidBatch)):
        list(iter_records(_with_payload(payload, count), max_bytes=MAX_BYTES))


def test_a_timestamp_past_64_bits_is_refused() -> None:
    batch = bytearray(build_batch([Record(0, 1, None, None), Record(1, 2**62, None, None)]))
    batch[27:35] = (2**63 - 2).to_bytes(8, "big")
    with pytest.raises(MalformedRecord) as caught:
        list(iter_records(batch, max_bytes=MAX_BYTES))
    assert caught.value.index == 1


def test_exactly_one_whole_batch_is_expected() -> None:
    batch = build_batch(RECORDS)
    with pytest.raises(TruncatedBatch):
        iter_records(batch[:-1], max_bytes=MAX_BYTES)
    with pytest.raises(CorruptBatch):
        iter_records(batch + b"x", max_bytes=MAX_BYTES)


@pytest.mark.parametrize("codec", Codec)
def test_the_decompressed_payload_is_limited(codec: Codec) -> None:
    batch = build_batch([Record(0, 0, None, bytes(10_000))], codec=codec)
    with pytest.raises(DecompressedTooLarge):
        list(iter_records(batch, max_bytes=9_000))


def test_all_errors_are_one_family() -> None:
    for error in (CorruptBatch, InvalidBatch, MalformedRecord, DecompressedTooLarge):
        assert issubclass(error, RecordError)
