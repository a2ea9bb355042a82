"""A fast builder for the broker's own small batches.

A coordinator writes a few records with the same timestamp, without headers and compression. The
bytes are the same as those of `build_batch`, which would take as long as a whole offset commit.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from headrace.records.batch_header import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
)
from headrace.records.checksum import crc32c
from headrace.records.varint import encode as varint

_SMALL_SIZES: Final = 512
_SIZES: Final = tuple(varint(size) for size in range(_SMALL_SIZES))
_SMALL_RECORD_BYTES: Final = _SMALL_SIZES - 16  # limit for key and value together
_NO_VALUE: Final = varint(-1) + b"\0"  # a null value, and no headers
_HEAD: Final = Struct(">qiibI")  # base offset, length, leader epoch, magic, crc
_CRC_COVERED: Final = Struct(">hiqqqhii")
_LENGTH_OF_NOTHING: Final = HEADER_SIZE - LOG_OVERHEAD

KeyAndValue = tuple[bytes, bytes | None]


def build_plain_batch(
    records: Sequence[KeyAndValue],
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytes:
    """One batch of at least one record; transactional if there is a producer."""
    payload = plain_records(records)
    return seal_plain_batch(
        payload,
        len(records),
        timestamp_ms,
        base_offset,
        leader_epoch,
        producer_id,
        producer_epoch,
    )


def plain_records(records: Sequence[KeyAndValue]) -> bytes:
    """The records of a batch, without its header."""
    if len(records) == 1:
        return plain_record(0, *records[0])
    return b"".join([plain_record(delta, *record) for delta, record in enumerate(records)])


def seal_plain_batch(
    payload: bytes,
    count: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytes:
    """The batch of `count` records in `payload`."""
    covered = (
        _CRC_COVERED.pack(
            TRANSACTIONAL_FLAG if producer_id >= 0 else 0,
            count - 1,
            timestamp_ms,
            timestamp_ms,
            producer_id,
            producer_epoch,
            NO_SEQUENCE,
            count,
        )
        + payload
    )
    length = _LENGTH_OF_NOTHING + len(payload)
    return _HEAD.pack(base_offset, length, leader_epoch, MAGIC, crc32c(covered)) + covered


def plain_record(offset_delta: int, key: bytes, value: bytes | None) -> bytes:
    """One record: attributes, timestamp delta and header count are a zero byte each."""
    if value is not None and offset_delta < _SMALL_SIZES:
        key_size, value_size = len(key), len(value)
        if key_size + value_size < _SMALL_RECORD_BYTES:  # nearly all records
            body = b"\0\0%b%b%b%b%b\0" % (
                _SIZES[offset_delta],
                _SIZES[key_size],
                key,
                _SIZES[value_size],
                value,
            )
            return _SIZES[len(body)] + body
    if value is None:
        body = b"\0\0%b%b%b%b" % (_size(offset_delta), _size(len(key)), key, _NO_VALUE)
    else:
        body = b"\0\0%b%b%b%b%b\0" % (
            _size(offset_delta),
            _size(len(key)),
            key,
            _size(len(value)),
            value,
        )
    return _size(len(body)) + body


def _size(number: int) -> bytes:
    return _SIZES[number] if number < _SMALL_SIZES else varint(number)
