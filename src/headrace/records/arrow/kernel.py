"""The inner loop of the decoder, compiled: one batch's payload into flat columns.

Reading trusts nothing: every length is checked against the bytes of its record before it is used.
The compiled code is kept on disk beside this module (or in NUMBA_CACHE_DIR), because compiling
costs seconds and a Spark worker lives for minutes.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Ends = NDArray[np.int32]
Numbers = NDArray[np.int64]

DONE: Final = 0
TRUNCATED: Final = 1
BAD_LENGTH: Final = 2
TRAILING: Final = 3
BAD_HEADER: Final = 4
BAD_DELTA: Final = 5

REASONS: Final = {
    TRUNCATED: "it ends in the middle of a field",
    BAD_LENGTH: "a length runs past the end of the record",
    TRAILING: "its fields do not end where the record does",
    BAD_HEADER: "a header has no name, or there are more headers than bytes",
    BAD_DELTA: "its offset is not within its batch",
}

# Cursors: what has been filled so far.
ROWS: Final = 0
KEY_BYTES: Final = 1
VALUE_BYTES: Final = 2
HEADERS: Final = 3
HEADER_NAME_BYTES: Final = 4
HEADER_VALUE_BYTES: Final = 5
CURSORS: Final = 6


def _read_varint(data: Bytes, pos: int, end: int) -> tuple[int, int]:
    """A zigzag integer and the position behind it, -1 if it does not end within ten bytes."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while pos < end and shift < np.uint64(70):
        byte = np.uint64(data[pos])
        pos += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            half: int = np.int64(value >> np.uint64(1))  # type: ignore[assignment]
            return (-half - 1 if value & np.uint64(1) else half), pos
        shift += np.uint64(7)
    return 0, -1


_varint = njit(cache=True, nogil=True, inline="always")(_read_varint)


def _decode(
    data: Bytes,
    count: int,
    base_offset: int,
    last_delta: int,
    base_timestamp: int,
    append_time: int,
    start: int,
    end: int,
    with_headers: bool,
    cursors: Numbers,
    offsets: Numbers,
    timestamps: Numbers,
    key_ends: Ends,
    key_valid: Flags,
    keys: Bytes,
    value_ends: Ends,
    value_valid: Flags,
    values: Bytes,
    header_ends: Ends,
    name_ends: Ends,
    names: Bytes,
    header_value_ends: Ends,
    header_value_valid: Flags,
    header_values: Bytes,
) -> tuple[int, int]:
    """Appends the records with start <= offset < end; (DONE or what is wrong, record's index).

    `append_time` is -1 for CreateTime. The arrays have room: as many rows as `count`, as many
    bytes as `data`.
    """
    pos = 0
    total = data.shape[0]
    rows = cursors[ROWS]
    key_at = cursors[KEY_BYTES]
    value_at = cursors[VALUE_BYTES]
    header_at = cursors[HEADERS]
    name_at = cursors[HEADER_NAME_BYTES]
    header_value_at = cursors[HEADER_VALUE_BYTES]
    for index in range(count):
        size, pos = _varint(data, pos, total)
        if pos < 0:
            return TRUNCATED, index
        stop = pos + size
        if size < 1 or stop > total:
            return BAD_LENGTH, index
        time_delta, pos = _varint(data, pos + 1, stop)
        if pos < 0:
            return TRUNCATED, index
        offset_delta, pos = _varint(data, pos, stop)
        if pos < 0:
            return TRUNCATED, index
        if offset_delta < 0 or offset_delta > last_delta:
            return BAD_DELTA, index
        key_size, pos = _varint(data, pos, stop)
        if pos < 0:
            return TRUNCATED, index
        key_from = pos
        if key_size > 0:
            pos += key_size
        if key_size < -1 or pos > stop:
            return BAD_LENGTH, index
        value_size, pos = _varint(data, pos, stop)
        if pos < 0:
            return TRUNCATED, index
        value_from = pos
        if value_size > 0:
            pos += value_size
        if value_size < -1 or pos > stop:
            return BAD_LENGTH, index
        header_count, pos = _varint(data, pos, stop)
        if pos < 0:
            return TRUNCATED, index
        if header_count < 0 or header_count * 2 > stop - pos:
            return BAD_HEADER, index
        offset = base_offset + offset_delta
        kept = start <= offset < end
        for _ in range(header_count):
            name_size, pos = _varint(data, pos, stop)
            if pos < 0:
                return TRUNCATED, index
            name_from = pos
            if name_size < 0:
                return BAD_HEADER, index
            pos += name_size
            if pos > stop:
                return BAD_LENGTH, index
            size, pos = _varint(data, pos, stop)
            if pos < 0:
                return TRUNCATED, index
            header_from = pos
            if size > 0:
                pos += size
            if size < -1 or pos > stop:
                return BAD_LENGTH, index
            if kept and with_headers:
                for step in range(name_size):
                    names[name_at + step] = data[name_from + step]
                name_at += name_size
                if size > 0:
                    for step in range(size):
                        header_values[header_value_at + step] = data[header_from + step]
                    header_value_at += size
                header_value_valid[header_at] = size >= 0
                header_at += 1
                name_ends[header_at] = name_at
                header_value_ends[header_at] = header_value_at
        if pos != stop:
            return TRAILING, index
        if not kept:
            continue
        offsets[rows] = offset
        timestamps[rows] = append_time if append_time >= 0 else base_timestamp + time_delta
        if key_size > 0:
            keys[key_at : key_at + key_size] = data[key_from : key_from + key_size]
            key_at += key_size
        if value_size > 0:
            values[value_at : value_at + value_size] = data[value_from : value_from + value_size]
            value_at += value_size
        key_valid[rows] = key_size >= 0
        value_valid[rows] = value_size >= 0
        rows += 1
        key_ends[rows] = key_at
        value_ends[rows] = value_at
        if with_headers:
            header_ends[rows] = header_at
    if pos != total:
        return TRAILING, count
    cursors[ROWS] = rows
    cursors[KEY_BYTES] = key_at
    cursors[VALUE_BYTES] = value_at
    cursors[HEADERS] = header_at
    cursors[HEADER_NAME_BYTES] = name_at
    cursors[HEADER_VALUE_BYTES] = header_value_at
    return DONE, count


decode: Callable[..., tuple[int, int]] = njit(cache=True, nogil=True)(_decode)
