"""A batch's header: read, checked and stamped in place."""

import pytest

from headrace.records.batch_header import (
    HEADER_SIZE,
    TimestampType,
    check_batch,
    crc_of,
    headers,
    read_header,
    stamp,
    stamp_log_append_time,
    stamp_max_timestamp,
)
from headrace.records.codec import Codec
from headrace.records.errors import (
    CorruptBatch,
    TruncatedBatch,
    UnsupportedCodec,
    UnsupportedMagic,
)
from headrace.records.record import Record, build_batch, iter_records

RECORDS = [Record(100 + index, 1_000 + index, b"k", b"value") for index in range(3)]
BATCH = build_batch(
    RECORDS,
    leader_epoch=4,
    producer_id=9,
    producer_epoch=2,
    base_sequence=2**31 - 2,
    is_transactional=True,
)


def test_a_header_has_the_fields_given_to_the_builder() -> None:
    header = read_header(BATCH)
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 102, 103)
    assert header.size == len(BATCH)
    assert (header.partition_leader_epoch, header.producer_id, header.producer_epoch) == (4, 9, 2)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_002)
    assert header.record_count == 3
    assert header.codec is Codec.NONE
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.is_transactional
    assert not header.is_control
    assert not header.has_delete_horizon


def test_sequences_wrap_from_the_largest_int_to_zero() -> None:
    assert read_header(BATCH).last_sequence == 0
    assert read_header(build_batch(RECORDS)).last_sequence == -1


def test_headers_walks_every_batch_of_a_buffer() -> None:
    other = build_batch([Record(103, 5, None, None)])
    found = [(pos, header.base_offset) for pos, header in headers(memoryview(BATCH + other))]
    assert found == [(0, 100), (len(BATCH), 103)]


@pytest.mark.parametrize("cut", [1, 16, 17, HEADER_SIZE - 1, HEADER_SIZE, len(BATCH) - 1])
def test_a_buffer_that_ends_inside_a_batch_is_refused_or_ends_there(cut: int) -> None:
    buf = BATCH + BATCH[:cut]
    with pytest.raises(TruncatedBatch):
        list(headers(buf))
    assert [pos for pos, _ in headers(buf, partial_tail=True)] == [0]


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 48])
def test_a_length_smaller_than_the_header_is_corrupt(length: int) -> None:
    buf = bytearray(BATCH)
    buf[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch):
        list(headers(buf, partial_tail=True))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_named_even_when_shorter_than_our_header(magic: int) -> None:
    message = bytes(8) + (14).to_bytes(4, "big") + bytes(4) + bytes([magic]) + bytes(9)
    with pytest.raises(UnsupportedMagic) as caught:
        list(headers(message))
    assert caught.value.magic == magic


@pytest.mark.parametrize("magic", [3, 0x7F, 0xFF])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    buf = bytearray(BATCH)
    buf[16] = magic
    with pytest.raises(CorruptBatch):
        read_header(buf)


def test_one_flipped_bit_anywhere_under_the_checksum_is_found() -> None:
    for index in range(21, len(BATCH)):
        buf = bytearray(BATCH)
        buf[index] ^= 0x10
        with pytest.raises(CorruptBatch):
            check_batch(buf, 0, read_header(buf))


def test_check_batch_accepts_a_good_batch_anywhere_in_a_buffer() -> None:
    buf = memoryview(b"xyz" + BATCH + b"tail")
    check_batch(buf, 3, read_header(buf, 3))


def test_check_batch_refuses_an_incomplete_batch() -> None:
    with pytest.raises(TruncatedBatch):
        check_batch(BATCH[:-1], 0, read_header(BATCH))


def test_stamping_offset_and_epoch_leaves_the_checksum_valid() -> None:
    buf = bytearray(b"pad" + BATCH)
    stamp(memoryview(buf), 3, 2**40, 77)
    header = read_header(buf, 3)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 77)
    check_batch(buf, 3, header)
    assert [r.offset for r in iter_records(buf[3:], max_bytes=1_000)] == [
        2**40,
        2**40 + 1,
        2**40 + 2,
    ]


def test_log_append_time_gives_every_record_the_leaders_time() -> None:
    buf = bytearray(BATCH)
    header = stamp_log_append_time(memoryview(buf), 0, read_header(buf), 5_555)
    assert header == read_header(buf)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    check_batch(buf, 0, header)
    assert {r.timestamp for r in iter_records(buf, max_bytes=1_000)} == {5_555}


def test_a_corrected_max_timestamp_keeps_the_batch_valid() -> None:
    buf = bytearray(BATCH)
    header = stamp_max_timestamp(buf, 0, read_header(buf), 9_999)
    assert header.max_timestamp == 9_999
    assert header.timestamp_type is TimestampType.CREATE_TIME
    check_batch(buf, 0, read_header(buf))


def test_the_checksum_is_crc_32c() -> None:
    # The check value of the CRC's definition: CRC-32C("123456789").
    assert crc_of(b"x" * 21 + b"123456789", 0, 30) == 0xE3069283


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_an_unknown_codec_has_its_own_error(codec_id: int) -> None:
    header = read_header(BATCH)._replace(attributes=codec_id)
    with pytest.raises(UnsupportedCodec) as caught:
        _ = header.codec
    assert caught.value.codec_id == codec_id
