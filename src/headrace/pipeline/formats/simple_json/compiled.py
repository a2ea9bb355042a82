"""The compiled reader for all schemas: it reads records' text into columns, by `layout`'s tables.

Columns are addresses; `counts` holds the number of values of each node. A record that is not simple
leaves no values: the number of rows and the ends of lists give the earlier size of each column.
In the same way, a record is restarted if a column is full.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numba import njit

from headrace.pipeline.formats.simple_json.floats import UNKNOWN, fits_float, to_double
from headrace.pipeline.formats.simple_json.kinds import (
    BOOLEAN,
    DATE,
    DECIMAL,
    DONE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LIST,
    MAP,
    STRING,
    STRUCT,
    TIMESTAMP,
    Bytes,
    Ends,
    Flags,
    Numbers,
    Words,
)
from headrace.pipeline.formats.simple_json.raw import (
    copy,
    load_byte,
    load_end,
    store_byte,
    store_end,
    store_number,
)
from headrace.pipeline.formats.simple_json.scalars import (
    HAS_EXPONENT,
    HAS_POINT,
    IS_NEGATIVE,
    NO_TIME,
    scan_number,
    scan_string,
    skip_blank,
    to_days,
    to_micros,
    unescape,
)

STACK: Final = 128
MAX_NAME_BYTES: Final = 1000
MAX_MAP_KEYS: Final = 64
"""A limit is needed because each key of a map is compared with all others."""
_SIGN: Final = np.uint64(1 << 63)
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
_COMMA, _COLON, _QUOTE = 44, 58, 34


def _literal(pos: int, stop: int) -> int:
    """The position after null, true or false."""
    if stop - pos < 4:
        return -1
    a, b, c, d = load_byte(pos), load_byte(pos + 1), load_byte(pos + 2), load_byte(pos + 3)
    if a == 110 and b == 117 and c == 108 and d == 108:
        return pos + 4
    if a == 116 and b == 114 and c == 117 and d == 101:
        return pos + 4
    if a == 102 and b == 97 and c == 108 and d == 115 and stop - pos > 4:
        return pos + 5 if load_byte(pos + 4) == 101 else -1
    return -1


literal = njit(cache=True, nogil=True)(_literal)


def _skip_scalar(pos: int, stop: int) -> int:
    byte = load_byte(pos)
    if byte == _QUOTE:
        end, _ = scan_string(pos + 1, stop)
        return end + 1 if end >= 0 else -1
    if byte == 45 or 48 <= byte <= 57:
        end, _, _, _ = scan_number(pos, stop)
        return end
    return literal(pos, stop)


skip_scalar = njit(cache=True, nogil=True)(_skip_scalar)


def _skip_value(pos: int, stop: int, stack: Numbers) -> int:
    """The position after a value that no column needs; it must still be valid JSON."""
    depth = 0
    while True:
        pos = skip_blank(pos, stop)
        if pos >= stop:
            return -1
        byte = load_byte(pos)
        opened = byte == _OPEN_OBJECT or byte == _OPEN_LIST
        if opened:
            if depth == STACK:
                return -1
            stack[depth] = np.int64(byte) + 2  # the closing character
            depth += 1
            pos = skip_blank(pos + 1, stop)
        else:
            pos = skip_scalar(pos, stop)
            if pos < 0:
                return -1
            if depth == 0:
                return pos
        while True:  # after a value, or at the beginning of a list or an object
            pos = skip_blank(pos, stop)
            if pos >= stop:
                return -1
            byte = load_byte(pos)
            if byte != stack[depth - 1]:
                break
            opened = False
            depth -= 1
            pos += 1
            if depth == 0:
                return pos
        if not opened:
            if byte != _COMMA:
                return -1
            pos = skip_blank(pos + 1, stop)
        if stack[depth - 1] == _CLOSE_OBJECT:
            if pos >= stop or load_byte(pos) != _QUOTE:
                return -1
            end, escaped = scan_string(pos + 1, stop)
            if end < 0 or escaped or end - pos > MAX_NAME_BYTES:
                return -1
            pos = skip_blank(end + 1, stop)
            if pos >= stop or load_byte(pos) != _COLON:
                return -1
            pos += 1


skip_value = njit(cache=True, nogil=True)(_skip_value)


def _is_name(pos: int, size: int, child: int, names: Bytes, name_starts: Numbers) -> bool:
    begin = name_starts[child]
    if name_starts[child + 1] - begin != size:
        return False
    for at in range(size):
        if names[begin + at] != load_byte(pos + at):
            return False
    return True


is_name = njit(cache=True, nogil=True, inline="always")(_is_name)


def _find_child(
    struct: int,
    likely: int,
    pos: int,
    size: int,
    ends: Numbers,
    names: Bytes,
    name_starts: Numbers,
) -> int:
    """The field with that name, or -1. Tries the usual order of the producers first."""
    if likely < ends[struct] and is_name(pos, size, likely, names, name_starts):
        return likely
    child = struct + 1
    while child < ends[struct]:
        if is_name(pos, size, child, names, name_starts):
            return child
        child = ends[child]
    return -1


find_child = njit(cache=True, nogil=True)(_find_child)


def _add_null(
    node: int,
    kinds: Numbers,
    ends: Numbers,
    counts: Numbers,
    room: Numbers,
    valid_at: Numbers,
    ends_at: Numbers,
    data_at: Numbers,
) -> int:
    """Adds a null for the node and the fields of a struct; returns the full node, or DONE."""
    at = node
    while at < ends[node]:
        count = counts[at]
        if count == room[at]:
            return at
        kind = kinds[at]
        store_byte(valid_at[at] + count, np.uint8(0))
        if kind == STRING or kind == LIST or kind == MAP:
            store_end(ends_at[at] + 4 * (count + 1), load_end(ends_at[at] + 4 * count))
        elif kind != STRUCT:
            store_number(data_at[at] + 8 * count, 0)  # do not expose old memory
        counts[at] = count + 1
        at = ends[at] if kind == LIST or kind == MAP else at + 1
    return DONE


add_null = njit(cache=True, nogil=True)(_add_null)


def _roll_back(
    rows: int, kinds: Numbers, parents: Numbers, counts: Numbers, ends_at: Numbers
) -> None:
    """Resets the columns to the first `rows` rows."""
    counts[0] = rows
    for node in range(1, len(kinds)):
        parent = parents[node]
        if kinds[parent] == STRUCT:
            counts[node] = counts[parent]
        else:
            counts[node] = load_end(ends_at[parent] + 4 * counts[parent])


roll_back = njit(cache=True, nogil=True)(_roll_back)


def _has_twins(first: int, last: int, ends_at: int, data_at: int) -> bool:
    """Whether two of these strings are equal."""
    for left in range(first + 1, last):
        begin, end = load_end(ends_at + 4 * left), load_end(ends_at + 4 * (left + 1))
        for right in range(first, left):
            other = load_end(ends_at + 4 * right)
            if load_end(ends_at + 4 * (right + 1)) - other != end - begin:
                continue
            same = True
            for at in range(end - begin):
                if load_byte(data_at + begin + at) != load_byte(data_at + other + at):
                    same = False
                    break
            if same:
                return True
    return False


has_twins = njit(cache=True, nogil=True)(_has_twins)


def _read_scalar(
    pos: int,
    stop: int,
    kind: int,
    low: int,
    high: int,
    zoneless: bool,
    powers: Words,
) -> tuple[int, int]:
    """Reads a value that is not a string: the position after it (-1: not simple) and 64 bits."""
    byte = load_byte(pos)
    if kind == BOOLEAN:
        end = literal(pos, stop)
        return end, np.int64(byte == 116)  # type: ignore[return-value]
    if kind == INTEGER or kind == DOUBLE or kind == FLOAT or kind == DECIMAL:
        end, value, power, flags = scan_number(pos, stop)
        if end < 0:
            return -1, 0
        negative = flags & IS_NEGATIVE != 0
        whole = flags & (HAS_POINT | HAS_EXPONENT) == 0
        if kind == INTEGER:
            limit = np.uint64(high) + np.uint64(1 if negative else 0)
            if not whole or power != 0 or value > limit:
                return -1, 0
            number = np.int64(value)
            return end, -number if negative else number  # type: ignore[return-value]
        if kind == DECIMAL:
            if flags & HAS_EXPONENT != 0 or power > 0 or -power > high:
                return -1, 0
            scaled = value
            for _ in range(high + power):
                if scaled >= np.uint64(10**17):
                    return -1, 0
                scaled *= np.uint64(10)
            limit = np.uint64(1)
            for _ in range(min(low + high, 18)):
                limit *= np.uint64(10)
            if scaled >= limit:
                return -1, 0
            number = np.int64(scaled)
            return end, -number if negative else number  # type: ignore[return-value]
        if whole and negative and value == np.uint64(0):
            return -1, 0  # a double has a negative zero, an integer does not
        bits = to_double(value, power, powers)
        if bits == UNKNOWN or (kind == FLOAT and not fits_float(bits)):
            return -1, 0
        return end, np.int64(bits | _SIGN if negative else bits)  # type: ignore[return-value]
    if byte != _QUOTE:
        return -1, 0
    end, escaped = scan_string(pos + 1, stop)
    if end < 0 or escaped:
        return -1, 0
    if kind == DATE:
        time = to_days(pos + 1, end) if end - pos == 11 else NO_TIME
    else:
        time = to_micros(pos + 1, end, kind == TIMESTAMP, zoneless or kind != TIMESTAMP)
    return (-1 if time == NO_TIME else end + 1), time


read_scalar = njit(cache=True, nogil=True)(_read_scalar)


def _add_string(
    pos: int,
    end: int,
    escaped: bool,
    node: int,
    counts: Numbers,
    room: Numbers,
    room_bytes: Numbers,
    valid_at: Numbers,
    ends_at: Numbers,
    data_at: Numbers,
) -> bool:
    """Adds a string; false if there is no room for it."""
    count = counts[node]
    used = load_end(ends_at[node] + 4 * count)
    size = end - pos
    if count == room[node] or used + size > room_bytes[node]:
        return False
    if escaped:
        size = unescape(pos, end, data_at[node] + used)
    else:
        copy(data_at[node] + used, pos, size)
    store_end(ends_at[node] + 4 * (count + 1), np.int32(used + size))
    store_byte(valid_at[node] + count, np.uint8(1))
    counts[node] = count + 1
    return True


add_string = njit(cache=True, nogil=True)(_add_string)


def _read(
    data: Bytes,
    value_ends: Ends,
    value_valid: Flags,
    first_row: int,
    limit_bytes: int,
    zoneless: bool,
    unknown_names: bool,
    kinds: Numbers,
    ends: Numbers,
    required: Numbers,
    lows: Numbers,
    highs: Numbers,
    parents: Numbers,
    names: Bytes,
    name_starts: Numbers,
    powers: Words,
    counts: Numbers,
    room: Numbers,
    room_bytes: Numbers,
    valid_at: Numbers,
    ends_at: Numbers,
    data_at: Numbers,
    simple: Flags,
) -> tuple[int, int]:
    """Reads from a row on; `simple` marks the rows that are in the columns.

    Returns DONE or the node that needs more room, and the row to continue with.
    """
    base = data.ctypes.data
    stack = np.empty(STACK, np.int64)
    skipped = np.empty(STACK, np.int64)
    serials = np.empty(STACK, np.int64)
    likely = np.empty(STACK, np.int64)
    seen = np.zeros(len(kinds), np.int64)
    serial = 0
    rows = counts[0]
    for row in range(first_row, len(simple)):
        simple[row] = False
        pos: int = base + value_ends[row]
        stop: int = base + value_ends[row + 1]
        if not value_valid[row] or stop - pos > limit_bytes:
            continue
        pos = skip_blank(pos, stop)
        if pos >= stop or load_byte(pos) != _OPEN_OBJECT:
            continue
        pos += 1
        depth = 1
        serial += 1
        stack[0] = 0
        serials[0] = serial
        likely[0] = 1
        opened = True  # the innermost object or list has no element yet
        full = DONE
        good = False
        while True:
            pos = skip_blank(pos, stop)
            if pos >= stop:
                break
            byte = load_byte(pos)
            top = stack[depth - 1]
            kind = kinds[top]
            if byte == (_CLOSE_LIST if kind == LIST else _CLOSE_OBJECT):
                pos += 1
                count = counts[top]
                if count == room[top]:
                    full = top
                    break
                if kind == STRUCT:
                    child = top + 1
                    lacking = False
                    while child < ends[top]:
                        if seen[child] != serials[depth - 1]:
                            if required[child] != 0:
                                lacking = True
                                break
                            full = add_null(
                                child, kinds, ends, counts, room, valid_at, ends_at, data_at
                            )
                            if full != DONE:
                                break
                        child = ends[child]
                    if lacking or full != DONE:
                        break
                else:
                    if kind == MAP:
                        before = load_end(ends_at[top] + 4 * count)
                        if counts[top + 1] - before > MAX_MAP_KEYS or has_twins(
                            before, counts[top + 1], ends_at[top + 1], data_at[top + 1]
                        ):
                            break
                    store_end(ends_at[top] + 4 * (count + 1), np.int32(counts[top + 1]))
                store_byte(valid_at[top] + count, np.uint8(1))
                counts[top] = count + 1
                opened = False
                depth -= 1
                if depth == 0:
                    good = skip_blank(pos, stop) == stop
                    break
                continue
            if not opened:
                if byte != _COMMA:
                    break
                pos = skip_blank(pos + 1, stop)
            opened = False
            target = top + 1
            if kind != LIST:
                if pos >= stop or load_byte(pos) != _QUOTE:
                    break
                end, escaped = scan_string(pos + 1, stop)
                if end < 0 or end - pos > MAX_NAME_BYTES:
                    break
                if kind == MAP:
                    if not add_string(
                        pos + 1,
                        end,
                        escaped,
                        target,
                        counts,
                        room,
                        room_bytes,
                        valid_at,
                        ends_at,
                        data_at,
                    ):
                        full = target
                        break
                    target += 1
                else:
                    if escaped:
                        break
                    target = find_child(
                        top, likely[depth - 1], pos + 1, end - pos - 1, ends, names, name_starts
                    )
                pos = skip_blank(end + 1, stop)
                if pos >= stop or load_byte(pos) != _COLON:
                    break
                pos = skip_blank(pos + 1, stop)
                if target < 0:
                    pos = skip_value(pos, stop, skipped) if unknown_names else -1
                    if pos < 0:
                        break
                    continue
                if kind == STRUCT:
                    if seen[target] == serials[depth - 1]:
                        break
                    seen[target] = serials[depth - 1]
                    likely[depth - 1] = ends[target]
            if pos >= stop:
                break
            byte = load_byte(pos)
            kind = kinds[target]
            if byte == 110:
                pos = literal(pos, stop)
                if pos < 0 or required[target] != 0:
                    break
                full = add_null(target, kinds, ends, counts, room, valid_at, ends_at, data_at)
                if full != DONE:
                    break
            elif kind == STRING:
                if byte != _QUOTE:
                    break
                end, escaped = scan_string(pos + 1, stop)
                if end < 0:
                    break
                if not add_string(
                    pos + 1,
                    end,
                    escaped,
                    target,
                    counts,
                    room,
                    room_bytes,
                    valid_at,
                    ends_at,
                    data_at,
                ):
                    full = target
                    break
                pos = end + 1
            elif kind == STRUCT or kind == LIST or kind == MAP:
                if byte != (_OPEN_LIST if kind == LIST else _OPEN_OBJECT) or depth == STACK:
                    break
                pos += 1
                stack[depth] = target
                serial += 1
                serials[depth] = serial
                likely[depth] = target + 1
                depth += 1
                opened = True
            else:
                count = counts[target]
                if count == room[target]:
                    full = target
                    break
                pos, value = read_scalar(
                    pos, stop, kind, lows[target], highs[target], zoneless, powers
                )
                if pos < 0:
                    break
                store_number(data_at[target] + 8 * count, value)
                store_byte(valid_at[target] + count, np.uint8(1))
                counts[target] = count + 1
        if good:
            simple[row] = True
            rows += 1
        else:
            roll_back(rows, kinds, parents, counts, ends_at)
            if full != DONE:
                return full, row
    return DONE, len(simple)


read: Callable[..., tuple[int, int]] = njit(cache=True, nogil=True)(_read)
