"""The outline of a batch's records: the fields for a topic's rules, without keys and values.

Checks the structure as strictly as `iter_records`, at a fraction of its cost: a broker validates
records on its event loop.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from headrace.records.batch_header import BatchHeader, TimestampType
from headrace.records.buffer import Buffer
from headrace.records.errors import InvalidBatch, MalformedRecord
from headrace.records.record import check_timestamp, open_batch
from headrace.records.varint import read_varint, read_varlong

_MAX_UNCHECKED_TIMESTAMP = 1 << 62


class Outline(NamedTuple):
    """One record: its offset delta, its timestamp, and whether it has a key."""

    offset_delta: int
    timestamp: int
    has_key: bool


_make = partial(tuple.__new__, Outline)  # the constructor of a NamedTuple, without its frame


def iter_outlines(batch: Buffer, *, max_bytes: int, max_records: int) -> Iterator[Outline]:
    """The outlines of exactly one batch; raises `InvalidBatch` for more than `max_records`."""
    header, payload = open_batch(batch, max_bytes=max_bytes)
    if header.record_count > max_records:
        raise InvalidBatch(
            f"{header.record_count} records in one batch; the limit for batches whose records the "
            f"broker must validate is {max_records}"
        )
    return _outlines(header, bytes(payload))  # indexing bytes is twice as fast as indexing a view


def _outlines(header: BatchHeader, data: bytes) -> Iterator[Outline]:
    """Reads fields of one byte, which most are, in place: a call takes longer than the read."""
    appended = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    base = header.max_timestamp if appended else header.base_timestamp
    pos, total = 0, len(data)
    for index in range(header.record_count):
        try:
            byte = data[pos]
            if byte < 0x80 and not byte & 1:
                pos += 1
                end = pos + (byte >> 1)
            else:
                size, pos = read_varint(data, pos)
                end = pos + size
            if not pos <= end <= total:
                raise MalformedRecord(index, f"{end - pos} bytes announced, {total - pos} remain")
            # The first byte holds attributes; format 2 defines none.
            pos += 1
            byte = data[pos]
            if byte < 0x80:
                timestamp_delta, pos = (byte >> 1) ^ -(byte & 1), pos + 1
            else:
                timestamp_delta, pos = read_varlong(data, pos)
            byte = data[pos]
            if byte < 0x80:
                offset_delta, pos = (byte >> 1) ^ -(byte & 1), pos + 1
            else:
                offset_delta, pos = read_varint(data, pos)
            byte = data[pos]
            if byte < 0x80:
                key_size, pos = (byte >> 1) ^ -(byte & 1), pos + 1
            else:
                key_size, pos = read_varint(data, pos)
            if key_size > 0:
                pos += key_size
            byte = data[pos]
            if byte < 0x80:
                value_size, pos = (byte >> 1) ^ -(byte & 1), pos + 1
            else:
                value_size, pos = read_varint(data, pos)
            if value_size > 0:
                pos += value_size
            headers = data[pos]
            if headers:
                headers, pos = read_varint(data, pos)
                pos = _skip_headers(data, pos, end, headers)
            else:
                pos += 1
            if pos != end:
                raise MalformedRecord(index, "its fields do not end where the record does")
            timestamp = base if appended else base + timestamp_delta
            if not 0 <= timestamp <= _MAX_UNCHECKED_TIMESTAMP:
                check_timestamp(timestamp)
        except (IndexError, ValueError) as error:
            raise MalformedRecord(index, str(error)) from None
        yield _make((offset_delta, timestamp, key_size >= 0))
    if pos != total:
        raise InvalidBatch(f"{total - pos} bytes follow the last of {header.record_count} records")


def _skip_headers(data: bytes, pos: int, end: int, count: int) -> int:
    # Each header has at least two lengths; an impossible count must not start the loop.
    if not 0 <= count * 2 <= end - pos:
        raise ValueError(f"{count} headers announced in {end - pos} bytes")
    for _ in range(count):
        name_size, pos = read_varint(data, pos)
        if name_size < 0:
            raise ValueError("a header has no name")
        value_size, pos = read_varint(data, pos + name_size)
        pos += max(0, value_size)
        if pos > end:
            raise ValueError("a header runs past its record")
    return pos
