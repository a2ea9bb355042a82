"""The compiled inner loop of the decoder: it decodes one batch's payload into flat columns.

The input is not trusted: every length is checked against the bytes of its record before it is used.
The compiled code is cached on disk beside this module (or in NUMBA_CACHE_DIR), because compiling
takes seconds and a Spark worker only runs for minutes.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from headrace.records.arrow.kernel import (
    BAD_DELTA,
    BAD_HEADER,
    BAD_LENGTH,
    DONE,
    HEADER_NAME_BYTES,
    HEADER_VALUE_BYTES,
    HEADERS,
    KEY_BYTES,
    ROWS,
    TRAILING,
    TRUNCATED,
    VALUE_BYTES,
    Bytes,
    Ends,
    Flags,
    Numbers,
)

_Numba: TypeAlias = Any
"""numba's own objects are untyped."""

_raw_memcpy: _Numba = cgutils.raw_memcpy


def _copy_bytes(
    typing_context: _Numba, target: _Numba, source: _Numba, size: _Numba
) -> tuple[_Numba, Callable[..., _Numba]]:
    """memcpy between addresses: numba's own loop over bytes takes five times as long."""

    def generate(context: _Numba, builder: _Numba, signature: _Numba, arguments: _Numba) -> _Numba:
        to, start, count = arguments
        _raw_memcpy(
            builder,
            builder.inttoptr(to, cgutils.voidptr_t),
            builder.inttoptr(start, cgutils.voidptr_t),
            count,
            1,
        )
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.intp), generate


_copy: _Numba = intrinsic(_copy_bytes)


def _read_long_varint(data: Bytes, pos: int, end: int) -> tuple[int, int]:
    """A zigzag integer and the position after it; -1 if it is longer than ten bytes."""
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


_long_varint = njit(cache=True, nogil=True)(_read_long_varint)


def _read_varint(data: Bytes, pos: int, end: int) -> tuple[int, int]:
    """Like `_read_long_varint`, with a fast path for one and two bytes."""
    if pos + 1 < end:
        first: int = np.int64(data[pos])  # type: ignore[assignment]
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), pos + 1
        second: int = np.int64(data[pos + 1])  # type: ignore[assignment]
        if second < 0x80:
            both = (first & 0x7F) | (second << 7)
            return (both >> 1) ^ -(both & 1), pos + 2
    return _long_varint(data, pos, end)


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
    """Appends the records with start <= offset < end; returns (status, record index).
    `append_time` is -1 for CreateTime. The arrays must be large enough for `count` rows and for the
    bytes of `data`.
    """
    pos = 0
    total = data.shape[0]
    rows = cursors[ROWS]
    key_at = cursors[KEY_BYTES]
    value_at = cursors[VALUE_BYTES]
    header_at = cursors[HEADERS]
    name_at = cursors[HEADER_NAME_BYTES]
    header_value_at = cursors[HEADER_VALUE_BYTES]
    data_begin = data.ctypes.data
    keys_begin = keys.ctypes.data
    values_begin = values.ctypes.data
    names_begin = names.ctypes.data
    header_values_begin = header_values.ctypes.data
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
                _copy(names_begin + name_at, data_begin + name_from, name_size)
                name_at += name_size
                if size > 0:
                    _copy(header_values_begin + header_value_at, data_begin + header_from, size)
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
            _copy(keys_begin + key_at, data_begin + key_from, key_size)
            key_at += key_size
        if value_size > 0:
            _copy(values_begin + value_at, data_begin + value_from, value_size)
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
