"""Reading the records of a batch, and building a batch of records.

The broker's hot path does not use this; tools, compaction, coordinators and tests do. Nothing is
trusted: every length is checked against the remaining bytes, the record count against the payload,
and the decompressed size against the caller's limit. Any buffer yields records or one
`RecordError`.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from headrace.records import varint
from headrace.records.batch_header import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
    crc_of,
    pack_header,
    read_header,
)
from headrace.records.buffer import Buffer
from headrace.records.codec import Codec, compress, decompress
from headrace.records.errors import CorruptBatch, InvalidBatch, MalformedRecord, TruncatedBatch

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

# Length, attributes, two deltas, two lengths and a count: at least one byte each.
_SMALLEST_RECORD_BYTES = 7
_INT32_MAX = 2**31 - 1
_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1


class Record(NamedTuple):
    """One record with its absolute offset and its timestamp in Unix milliseconds.

    A header name that is not UTF-8 keeps its bytes as surrogates ("surrogateescape"), so that a
    batch does not change when it is read and built again.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def iter_records(batch: Buffer, *, max_bytes: int) -> Iterator[Record]:
    """The records of exactly one batch, in order; `max_bytes` limits the decompressed payload.

    The caller checks the CRC (`check_batch`). An error may come after the first records.
    """
    return _records(*open_batch(batch, max_bytes=max_bytes))


def open_batch(batch: Buffer, *, max_bytes: int) -> tuple[BatchHeader, memoryview]:
    """The header and the decompressed payload of exactly one batch with a possible count."""
    header = read_header(batch)
    if header.size > len(batch):
        raise TruncatedBatch(f"batch announces {header.size} bytes, {len(batch)} are there")
    if header.size < len(batch):
        raise CorruptBatch(f"{len(batch) - header.size} bytes follow the batch")
    payload = decompress(header.codec, memoryview(batch)[HEADER_SIZE:], max_bytes=max_bytes)
    count = header.record_count
    if not 0 <= count * _SMALLEST_RECORD_BYTES <= len(payload):
        raise InvalidBatch(f"{count} records are announced in {len(payload)} bytes")
    return header, payload


def _records(header: BatchHeader, payload: memoryview) -> Iterator[Record]:
    count = header.record_count
    appended_ms = None
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        appended_ms = header.max_timestamp
    pos = 0
    for index in range(count):
        try:
            size, pos = varint.read_varint(payload, pos)
            if not 0 <= size <= len(payload) - pos:
                raise MalformedRecord(index, f"{size} bytes announced, {len(payload) - pos} remain")
            record = _read_record(payload, pos, pos + size, header, appended_ms)
        except (IndexError, ValueError) as error:
            raise MalformedRecord(index, str(error)) from None
        pos += size
        yield record
    if pos != len(payload):
        raise InvalidBatch(f"{len(payload) - pos} bytes follow the last of {count} records")


def _read_record(
    buf: memoryview, pos: int, end: int, header: BatchHeader, appended_ms: int | None
) -> Record:
    """The record in [pos, end); raises IndexError or ValueError if it does not fit."""
    # The first byte holds attributes; format 2 defines none.
    timestamp_delta, pos = varint.read_varlong(buf, pos + 1)
    offset_delta, pos = varint.read_varint(buf, pos)
    key, pos = _read_bytes(buf, pos, end)
    value, pos = _read_bytes(buf, pos, end)
    count, pos = varint.read_varint(buf, pos)
    headers: Headers = ()
    if count:
        headers, pos = _read_headers(buf, pos, end, count)
    if pos != end:
        raise ValueError(f"fields end {abs(end - pos)} bytes from the record's announced end")
    timestamp = header.base_timestamp + timestamp_delta if appended_ms is None else appended_ms
    check_timestamp(timestamp)
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers)


def check_timestamp(timestamp: int) -> None:
    if not _INT64_MIN <= timestamp <= _INT64_MAX:
        raise ValueError("timestamp is out of range")


def _read_bytes(buf: memoryview, pos: int, end: int) -> tuple[bytes | None, int]:
    size, pos = varint.read_varint(buf, pos)
    if size < 0:
        return None, pos
    if size > end - pos:
        raise ValueError(f"{size} bytes announced, {end - pos} remain in the record")
    stop = pos + size
    return bytes(buf[pos:stop]), stop


def _read_headers(buf: memoryview, pos: int, end: int, count: int) -> tuple[Headers, int]:
    # Each header has at least two lengths; an impossible count must not start the loop.
    if not 0 <= count * 2 <= end - pos:
        raise ValueError(f"{count} headers announced in {end - pos} bytes")
    headers = []
    for _ in range(count):
        name, pos = _read_bytes(buf, pos, end)
        if name is None:
            raise ValueError("a header has no name")
        value, pos = _read_bytes(buf, pos, end)
        headers.append((name.decode(errors="surrogateescape"), value))
    return tuple(headers), pos


def build_batch(
    records: Iterable[Record],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_timestamp: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """One batch with these records, whose offsets must ascend.

    `base_offset` and `last_offset` default to the first and last record's. Compaction sets them:
    a cleaned batch keeps its range, even without records.
    """
    chosen = list(records)
    first, last = _offset_range(chosen, base_offset, last_offset)
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    else:
        base_timestamp = chosen[0].timestamp if chosen else NO_TIMESTAMP
    payload = _encode_records(chosen, first, base_timestamp)
    if codec is not Codec.NONE:
        payload = compress(codec, payload, level=level)
    attributes = (
        codec
        | (TIMESTAMP_TYPE_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_FLAG if is_transactional else 0)
        | (CONTROL_FLAG if is_control else 0)
        | (DELETE_HORIZON_FLAG if delete_horizon_ms is not None else 0)
    )
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in chosen), default=NO_TIMESTAMP)
    header = BatchHeader(
        base_offset=first,
        batch_length=HEADER_SIZE - LOG_OVERHEAD + len(payload),
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last - first,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(chosen),
    )
    return _assemble(header, payload)


def recompress(batch: Buffer, codec: Codec, *, max_bytes: int) -> bytes:
    """The same batch in another codec; the records are not parsed."""
    header, payload = open_batch(batch, max_bytes=max_bytes)
    packed = bytes(payload) if codec is Codec.NONE else compress(codec, payload)
    return _assemble(
        header._replace(
            batch_length=HEADER_SIZE - LOG_OVERHEAD + len(packed),
            attributes=header.attributes & ~CODEC_MASK | codec,
        ),
        packed,
    )


def _assemble(header: BatchHeader, payload: bytes) -> bytes:
    batch = bytearray(HEADER_SIZE)
    batch += payload
    try:
        pack_header(batch, 0, header)
        crc = crc_of(batch, 0, len(batch))
        pack_header(batch, 0, header._replace(crc=crc))
    except struct.error as error:
        raise InvalidBatch(f"a header field is out of range: {error}") from None
    return bytes(batch)


def _offset_range(
    records: Sequence[Record], base_offset: int | None, last_offset: int | None
) -> tuple[int, int]:
    """The batch's range of offsets; raises unless the records are in it, in order."""
    if records:
        base_offset = records[0].offset if base_offset is None else base_offset
        last_offset = records[-1].offset if last_offset is None else last_offset
    if base_offset is None or last_offset is None:
        raise InvalidBatch("a batch without records needs base_offset and last_offset")
    if not 0 <= last_offset - base_offset <= _INT32_MAX:
        raise InvalidBatch(f"offsets {base_offset} to {last_offset} do not fit in one batch")
    previous = base_offset - 1
    for index, record in enumerate(records):
        if not previous < record.offset <= last_offset:
            raise MalformedRecord(
                index, f"offset {record.offset} does not lie in ({previous}, {last_offset}]"
            )
        previous = record.offset
    return base_offset, last_offset


def _encode_records(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    """The uncompressed payload of a batch."""
    parts: list[bytes] = []
    for record in records:
        body = [
            b"\x00",
            varint.encode(record.timestamp - base_timestamp),
            varint.encode(record.offset - base_offset),
            *_encode_bytes(record.key),
            *_encode_bytes(record.value),
            varint.encode(len(record.headers)),
        ]
        for name, value in record.headers:
            body += _encode_bytes(name.encode(errors="surrogateescape"))
            body += _encode_bytes(value)
        encoded = b"".join(body)
        parts.append(varint.encode(len(encoded)))
        parts.append(encoded)
    return b"".join(parts)


def _encode_bytes(data: bytes | None) -> tuple[bytes, ...]:
    if data is None:
        return (varint.encode(-1),)
    return varint.encode(len(data)), data
