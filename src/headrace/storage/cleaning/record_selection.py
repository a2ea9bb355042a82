"""The cleaner's two scans of a batch's records: one maps the keys, one selects the records to keep.

Each record is a length, a byte of attributes, the deltas of time and offset, then key and value
with their lengths; all lengths and deltas are zigzag varints, whose lowest bit is the sign.

Both scans read these fields in place, each in its own loop. One generator for both would make a
pass over a log a quarter slower (1.75 us for each record instead of 1.4).
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeAlias

from headrace.records.batch_header import BatchHeader
from headrace.storage.cleaning.segment_reader import Uncleanable

RecordSpan: TypeAlias = tuple[int, int, int]
"""Positions of a record: its start, the byte after its length, its end."""

# Longer keys are replaced by a digest, which is longer than any key that is kept unchanged.
MAX_PLAIN_KEY_BYTES = 32
DIGEST_BYTES = 33
_MAX_PLAIN_KEY = MAX_PLAIN_KEY_BYTES << 1
_MAX_SHIFT = 63


def map_keys(
    header: BatchHeader, data: bytes, pos: int, end: int, latest: dict[bytes, int]
) -> bool:
    """Maps each key to its offset in data[pos:end]; returns whether there is a tombstone."""
    base = header.base_offset
    last_delta = header.last_offset_delta << 1
    has_tombstones = False
    try:
        for _ in range(header.record_count):
            size = data[pos]
            pos += 1
            if size > 127:
                size += (data[pos] - 1) << 7
                pos += 1
                if size > 16383:
                    size, pos = _rest_of_varint(data, pos, size)
            record_end = pos + (size >> 1)
            pos += 1
            while data[pos] > 127:
                pos += 1
            delta = data[pos + 1]
            pos += 2
            if delta > 127:
                delta += (data[pos] - 1) << 7
                pos += 1
                if delta > 16383:
                    delta, pos = _rest_of_varint(data, pos, delta)
            length = data[pos]
            pos += 1
            if length > 127:
                length, pos = _rest_of_varint(data, pos, length, 7)
            if length & 1:
                pos = record_end
                continue  # a record without a key, from before the topic was compacted
            value_at = pos + (length >> 1)
            if value_at >= record_end or size & 1 or delta > last_delta:
                raise IndexError
            key = data[pos:value_at]
            if length > _MAX_PLAIN_KEY:
                key = blake2b(key, digest_size=DIGEST_BYTES).digest()
            latest[key] = base + (delta >> 1)
            if data[value_at] & 1:
                has_tombstones = True
            pos = record_end
    except IndexError:
        pos = -1
    if pos != end:
        raise _unreadable(header)
    return has_tombstones


def select_records(
    header: BatchHeader,
    data: bytes,
    pos: int,
    end: int,
    latest: dict[bytes, int],
    *,
    survivors: Sequence[int] | None = None,
    drops_tombstones: bool = False,
) -> tuple[list[RecordSpan], bool]:
    """The records in data[pos:end] to keep, and whether there is a tombstone among them.

    `survivors` are their offsets, if these are known and there is no tombstone: then the keys are
    not compared.
    """
    base = header.base_offset
    wanted = None if survivors is None else {(offset - base) << 1 for offset in survivors}
    offset_of = latest.get
    kept: list[RecordSpan] = []
    has_tombstones = False
    try:
        for _ in range(header.record_count):
            start = pos
            size = data[pos]
            pos += 1
            if size > 127:
                size += (data[pos] - 1) << 7
                pos += 1
                if size > 16383:
                    size, pos = _rest_of_varint(data, pos, size)
            body = pos
            record_end = pos + (size >> 1)
            pos += 1
            while data[pos] > 127:
                pos += 1
            delta = data[pos + 1]
            pos += 2
            if delta > 127:
                delta += (data[pos] - 1) << 7
                pos += 1
                if delta > 16383:
                    delta, pos = _rest_of_varint(data, pos, delta)
            if wanted is not None:
                if delta in wanted:
                    kept.append((start, body, record_end))
                pos = record_end
                continue
            length = data[pos]
            pos += 1
            if length > 127:
                length, pos = _rest_of_varint(data, pos, length, 7)
            if length & 1:
                pos = record_end
                continue  # a compacted topic does not keep records without a key
            value_at = pos + (length >> 1)
            if value_at >= record_end or size & 1:
                raise IndexError
            key = data[pos:value_at]
            if length > _MAX_PLAIN_KEY:
                key = blake2b(key, digest_size=DIGEST_BYTES).digest()
            pos = record_end
            if offset_of(key, -1) > base + (delta >> 1):
                continue
            if data[value_at] & 1:
                if drops_tombstones:
                    continue
                has_tombstones = True
            kept.append((start, body, record_end))
    except IndexError:
        pos = -1
    if pos != end or (wanted is not None and len(kept) != len(wanted)):
        raise _unreadable(header)
    return kept, has_tombstones


def _rest_of_varint(data: bytes, pos: int, value: int, shift: int = 14) -> tuple[int, int]:
    """The value and end of a varint whose first bytes gave `value`, with the last one's top bit."""
    value -= 1 << shift
    while True:
        byte = data[pos]
        pos += 1
        value += (byte & 0x7F) << shift
        if byte < 128:
            return value, pos
        shift += 7
        if shift > _MAX_SHIFT:
            raise IndexError


def _unreadable(header: BatchHeader) -> Uncleanable:
    return Uncleanable(f"the records of the batch at offset {header.base_offset} are damaged")
