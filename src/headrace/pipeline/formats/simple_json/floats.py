"""Converts decimal numbers to the nearest double, exactly, by one or two multiplications.

After Lemire, "Number parsing at a gigabyte per second" (2021): w * 10^q is w * 5^q times a power of
two, and 128 bits of 5^q nearly always decide how to round. If they do not, the result is UNKNOWN,
and the caller uses another reader. The same applies to numbers outside the range of normal doubles.
"""

from typing import Final

import numpy as np
from numba import njit

from headrace.pipeline.formats.simple_json.kinds import Words
from headrace.pipeline.formats.simple_json.raw import leading_zeros, product_high

LOWEST: Final = -320
HIGHEST: Final = 308
_MANTISSA_BITS: Final = 52
UNKNOWN: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
"""No finite number has these bits."""


def _powers() -> Words:
    """The first 128 bits of each power of five, in two words; negative powers are rounded up."""
    table = np.zeros(2 * (HIGHEST - LOWEST + 1), np.uint64)
    for power in range(LOWEST, HIGHEST + 1):
        if power >= 0:
            value = 5**power
            surplus = value.bit_length() - 128
            bits = value >> surplus if surplus > 0 else value << -surplus
        else:
            divisor = 5**-power
            bits = (1 << (divisor.bit_length() + 127)) // divisor + 1
        at = 2 * (power - LOWEST)
        table[at], table[at + 1] = bits >> 64, bits & 0xFFFFFFFFFFFFFFFF
    return table


POWERS: Final = _powers()


def _to_double(mantissa: np.uint64, power: int, powers: Words) -> np.uint64:
    """The bits of the double nearest to mantissa * 10^power, or UNKNOWN."""
    if mantissa == np.uint64(0):
        return np.uint64(0)
    if power < LOWEST or power > HIGHEST:
        return UNKNOWN
    zeros = leading_zeros(mantissa)
    shifted = mantissa << zeros
    at = 2 * (power - LOWEST)
    high = product_high(shifted, powers[at])
    low = shifted * powers[at]
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more = product_high(shifted, powers[at + 1])
        low += more
        if low < more:
            high += np.uint64(1)
    if low == np.uint64(0xFFFFFFFFFFFFFFFF) and (power < -27 or power > 55):
        return UNKNOWN
    upper = high >> np.uint64(63)
    cut = upper + np.uint64(64 - _MANTISSA_BITS - 3)
    bits = high >> cut
    exponent = ((217706 * power) >> 16) + 63 + np.int64(upper) - np.int64(zeros) + 1023
    if exponent <= 0:
        return UNKNOWN
    if (
        low <= np.uint64(1)
        and -4 <= power <= 23
        and bits & np.uint64(3) == np.uint64(1)
        and bits << cut == high
    ):
        bits &= ~np.uint64(1)  # exactly between two doubles: take the even one
    bits = (bits + (bits & np.uint64(1))) >> np.uint64(1)
    if bits >= np.uint64(2 << _MANTISSA_BITS):
        bits = np.uint64(1 << _MANTISSA_BITS)
        exponent += 1
    if exponent >= 0x7FF:
        return UNKNOWN
    fraction = bits & np.uint64((1 << _MANTISSA_BITS) - 1)
    result: np.uint64 = fraction | (np.uint64(exponent) << np.uint64(_MANTISSA_BITS))
    return result


to_double = njit(cache=True, nogil=True)(_to_double)


def _fits_float(bits: np.uint64) -> bool:
    """Whether a double rounds to the float that the number itself would round to.

    This is not certain if the double lies exactly between two floats: the number may have been on
    either side of it.
    """
    exponent = np.int64(bits >> np.uint64(_MANTISSA_BITS)) & 0x7FF
    if bits == np.uint64(0):
        return True
    if exponent < 1023 - 125 or exponent > 1023 + 126:
        return False
    between = np.int64(bits & np.uint64(0x1FFFFFFF)) - 0x10000000
    return between < -1 or between > 1  # type: ignore[return-value]


fits_float = njit(cache=True, nogil=True)(_fits_float)
