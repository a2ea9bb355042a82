"""Compiled readers of strings, numbers and times in JSON text. Positions are addresses.

Every function gets the end of the record and never reads after it. -1 means: not simple.
"""

from typing import Final

import numpy as np
from numba import njit

from headrace.pipeline.formats.simple_json.raw import (
    load_byte,
    load_word,
    store_byte,
    trailing_zeros,
)

MAX_STRING_BYTES: Final = 1 << 20
MAX_NUMBER_BYTES: Final = 100
MAX_DIGITS: Final = 19
"""Any number with this many digits fits into 64 bits."""
IS_NEGATIVE: Final = 1
HAS_POINT: Final = 2
HAS_EXPONENT: Final = 4
_EACH: Final = np.uint64(0x0101010101010101)
_TOP: Final = np.uint64(0x8080808080808080)
_QUOTES: Final = np.uint64(0x2222222222222222)
_BACKSLASHES: Final = np.uint64(0x5C5C5C5C5C5C5C5C)
_BLANKS: Final = np.uint64(0x2020202020202020)


def _skip_blank(pos: int, stop: int) -> int:
    while pos < stop:
        byte = load_byte(pos)
        if byte > 32 or (byte != 32 and byte != 10 and byte != 13 and byte != 9):
            break
        pos += 1
    return pos


skip_blank = njit(cache=True, nogil=True, inline="always")(_skip_blank)


def _next_special(pos: int, stop: int) -> int:
    """The next quote, backslash, control character or byte that is not ASCII."""
    while pos + 8 <= stop:
        word = load_word(pos)
        quotes = word ^ _QUOTES
        slashes = word ^ _BACKSLASHES
        found = (
            ((quotes - _EACH) & ~quotes)
            | ((slashes - _EACH) & ~slashes)
            | ((word - _BLANKS) & ~word)
            | word
        ) & _TOP
        if found != np.uint64(0):
            return pos + np.int64(trailing_zeros(found) >> np.uint64(3))  # type: ignore[return-value]
        pos += 8
    while pos < stop:
        byte = load_byte(pos)
        if byte == 34 or byte == 92 or byte < 32 or byte >= 128:
            return pos
        pos += 1
    return pos


next_special = njit(cache=True, nogil=True)(_next_special)


def _utf8(pos: int, stop: int) -> int:
    """The position after a character that is not ASCII."""
    first = np.int64(load_byte(pos))
    more, low, high = 0, 0x80, 0xBF  # the number of following bytes; the bounds of the second
    if 0xC2 <= first <= 0xDF:
        more = 1
    elif 0xE0 <= first <= 0xEF:
        more = 2
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
    elif 0xF0 <= first <= 0xF4:
        more = 3
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    else:
        return -1
    if pos + more >= stop:
        return -1
    second = np.int64(load_byte(pos + 1))
    if second < low or second > high:
        return -1
    for at in range(2, more + 1):
        if np.int64(load_byte(pos + at)) & 0xC0 != 0x80:
            return -1
    return pos + more + 1


utf8 = njit(cache=True, nogil=True)(_utf8)


def _hex4(pos: int) -> int:
    """The value of four hexadecimal digits."""
    value = 0
    for at in range(4):
        byte = np.int64(load_byte(pos + at))
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= byte | 32 <= 102:
            digit = (byte | 32) - 87
        else:
            return -1
        value = value * 16 + digit  # type: ignore[assignment]
    return value


hex4 = njit(cache=True, nogil=True)(_hex4)


def _escape(pos: int, stop: int) -> tuple[int, int]:
    """The character of an escape with its backslash at `pos`, and the position after it.

    Half of a surrogate pair is not simple.
    """
    if pos + 1 >= stop:
        return 0, -1
    byte = np.int64(load_byte(pos + 1))
    if byte == 34 or byte == 92 or byte == 47:
        return byte, pos + 2  # type: ignore[return-value]
    if byte == 110:
        return 10, pos + 2
    if byte == 116:
        return 9, pos + 2
    if byte == 114:
        return 13, pos + 2
    if byte == 98:
        return 8, pos + 2
    if byte == 102:
        return 12, pos + 2
    if byte != 117 or pos + 6 > stop:
        return 0, -1
    value = hex4(pos + 2)
    if value < 0:
        return 0, -1
    if value < 0xD800 or value > 0xDFFF:
        return value, pos + 6
    if value > 0xDBFF or pos + 12 > stop or load_byte(pos + 6) != 92 or load_byte(pos + 7) != 117:
        return 0, -1
    second = hex4(pos + 8)
    if second < 0xDC00 or second > 0xDFFF:
        return 0, -1
    return 0x10000 + ((value - 0xD800) << 10) + second - 0xDC00, pos + 12


escape = njit(cache=True, nogil=True)(_escape)


def _scan_string(pos: int, stop: int) -> tuple[int, bool]:
    """From after the opening quote: the closing quote, and whether there are escapes."""
    begin = pos
    escaped = False
    while True:
        pos = next_special(pos, stop)
        if pos >= stop:
            return -1, False
        byte = load_byte(pos)
        if byte == 34:
            break
        if byte == 92:
            escaped = True
            _, pos = escape(pos, stop)
        elif byte >= 128:
            pos = utf8(pos, stop)
        else:
            return -1, False
        if pos < 0:
            return -1, False
    if pos - begin > MAX_STRING_BYTES:
        return -1, False
    return pos, escaped


scan_string = njit(cache=True, nogil=True)(_scan_string)


def _unescape(pos: int, end: int, target: int) -> int:
    """Writes a scanned string and returns its size, which is never larger than in the text."""
    begin = target
    while pos < end:
        byte = load_byte(pos)
        if byte != 92:
            store_byte(target, byte)
            target += 1
            pos += 1
            continue
        value, pos = escape(pos, end)
        if value < 0x80:
            store_byte(target, np.uint8(value))
            target += 1
            continue
        if value < 0x800:
            store_byte(target, np.uint8(0xC0 | (value >> 6)))
            target += 1
        else:
            if value < 0x10000:
                store_byte(target, np.uint8(0xE0 | (value >> 12)))
                target += 1
            else:
                store_byte(target, np.uint8(0xF0 | (value >> 18)))
                store_byte(target + 1, np.uint8(0x80 | ((value >> 12) & 0x3F)))
                target += 2
            store_byte(target, np.uint8(0x80 | ((value >> 6) & 0x3F)))
            target += 1
        store_byte(target, np.uint8(0x80 | (value & 0x3F)))
        target += 1
    return target - begin


unescape = njit(cache=True, nogil=True)(_unescape)


def _digits(pos: int, stop: int, value: np.uint64) -> tuple[int, np.uint64]:
    """The position after the digits, and `value` extended by them."""
    while pos < stop:
        digit = load_byte(pos) - np.uint8(48)
        if digit > 9:
            break
        value = value * np.uint64(10) + np.uint64(digit)
        pos += 1
    return pos, value


digits = njit(cache=True, nogil=True, inline="always")(_digits)


def _scan_number(pos: int, stop: int) -> tuple[int, np.uint64, int, int]:
    """The position after a number, its digits as one number, the power of ten, and flags.

    A value that no column needs may have more than `MAX_DIGITS`. Then the digits are wrong, and the
    power of ten is `stop`, which is larger than any valid power.
    """
    begin = pos
    flags = 0
    zero = np.uint64(0)
    if pos < stop and load_byte(pos) == 45:
        flags = IS_NEGATIVE
        pos += 1
    first = pos
    pos, value = digits(pos, stop, zero)
    count = pos - first
    if count == 0 or (count > 1 and load_byte(first) == 48):
        return -1, zero, 0, 0
    power = 0
    if pos < stop and load_byte(pos) == 46:
        flags |= HAS_POINT
        point = pos + 1
        pos, value = digits(point, stop, value)
        power = point - pos
        if power == 0:
            return -1, zero, 0, 0
        count -= power
        if load_byte(first) == 48:  # leading zeros do not count
            count -= 1
            while point < pos and load_byte(point) == 48:
                count -= 1
                point += 1
    if pos < stop and load_byte(pos) | 32 == 101:
        flags |= HAS_EXPONENT
        pos += 1
        negative = False
        if pos < stop and (load_byte(pos) == 45 or load_byte(pos) == 43):
            negative = load_byte(pos) == 45
            pos += 1
        at = pos
        pos, exponent = digits(pos, stop, zero)
        if pos == at or pos - at > 4:
            return -1, zero, 0, 0
        power += -np.int64(exponent) if negative else np.int64(exponent)  # type: ignore[assignment]
    if pos - begin > MAX_NUMBER_BYTES:
        return -1, zero, 0, 0
    if count > MAX_DIGITS:
        power = stop
    return pos, value, power, flags


scan_number = njit(cache=True, nogil=True)(_scan_number)


def _fixed(pos: int, count: int) -> int:
    """The value of `count` digits."""
    value = 0
    for at in range(count):
        digit = load_byte(pos + at) - np.uint8(48)
        if digit > 9:
            return -1
        value = value * 10 + np.int64(digit)  # type: ignore[assignment]
    return value


fixed = njit(cache=True, nogil=True, inline="always")(_fixed)

NO_TIME: Final = -(1 << 62)


def _to_days(pos: int, stop: int) -> int:
    """`YYYY-MM-DD` as days since 1970, or NO_TIME; the years 1 to 9999."""
    if stop - pos < 10 or load_byte(pos + 4) != 45 or load_byte(pos + 7) != 45:
        return NO_TIME
    year, month, day = fixed(pos, 4), fixed(pos + 5, 2), fixed(pos + 8, 2)
    if year < 1 or month < 1 or month > 12 or day < 1:
        return NO_TIME
    last = 31
    if month == 4 or month == 6 or month == 9 or month == 11:
        last = 30
    elif month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        last = 29 if leap else 28
    if day > last:
        return NO_TIME
    # If years begin in March, the leap day is their last day.
    if month <= 2:
        year -= 1
        month += 12
    in_year = (153 * (month - 3) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + in_year - 719468


to_days = njit(cache=True, nogil=True)(_to_days)


def _to_micros(pos: int, stop: int, zoned: bool, zoneless: bool) -> int:
    """`YYYY-MM-DDTHH:MM:SS[.ffffff][Z|+HH:MM]` as microseconds since 1970, or NO_TIME.

    `zoned`: it may have a time zone. `zoneless`: it may have none, and is then in UTC.
    """
    if stop - pos < 19:
        return NO_TIME
    days = to_days(pos, pos + 10)
    between = load_byte(pos + 10)
    if days == NO_TIME or (between != 84 and between != 32):
        return NO_TIME
    if load_byte(pos + 13) != 58 or load_byte(pos + 16) != 58:
        return NO_TIME
    hour, minute, second = fixed(pos + 11, 2), fixed(pos + 14, 2), fixed(pos + 17, 2)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return NO_TIME
    micros = ((hour * 60 + minute) * 60 + second) * 1_000_000
    pos += 19
    if pos < stop and load_byte(pos) == 46:
        pos += 1
        at, part = digits(pos, stop, np.uint64(0))
        count = at - pos
        if count < 1 or count > 6:
            return NO_TIME
        scaled = np.int64(part)
        for _ in range(6 - count):
            scaled *= 10
        micros += scaled  # type: ignore[assignment]
        pos = at
    if pos == stop:
        if not zoneless:
            return NO_TIME
    elif not zoned:
        return NO_TIME
    elif load_byte(pos) == 90:
        if pos + 1 != stop:
            return NO_TIME
    else:
        sign = load_byte(pos)
        if (sign != 43 and sign != 45) or stop - pos != 6 or load_byte(pos + 3) != 58:
            return NO_TIME
        hours, minutes = fixed(pos + 1, 2), fixed(pos + 4, 2)
        if hours < 0 or hours > 14 or minutes < 0 or minutes > 59:
            return NO_TIME
        # The zone may shift the time out of the first or the last year.
        if days < -719162 + 366 or days > 2932896 - 366:
            return NO_TIME
        shift = (hours * 60 + minutes) * 60_000_000
        micros += shift if sign == 45 else -shift
    return days * 86_400_000_000 + micros


to_micros = njit(cache=True, nogil=True)(_to_micros)
