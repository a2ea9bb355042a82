"""Variable-length integers of records: 7 bits in each byte, low bits first, zigzag for the sign.

`read_*` raise IndexError at the end of the buffer and ValueError for an integer that is longer than
its type allows; the record reader turns both into `MalformedRecord`.
"""

from collections.abc import Callable

from headrace.records.buffer import Buffer

_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def _read_unsigned(buf: Buffer, pos: int, shift_limit: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift >= shift_limit:
            raise ValueError("variable-length integer is too long")


def _reader(shift_limit: int, mask: int) -> Callable[[Buffer, int], tuple[int, int]]:
    """A reader of signed integers. Only the loop for integers of more than three bytes depends on
    the type."""

    def read(buf: Buffer, pos: int) -> tuple[int, int]:
        byte = buf[pos]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), pos + 1
        second = buf[pos + 1]
        if second < 0x80:
            value = byte & 0x7F | second << 7
            return (value >> 1) ^ -(value & 1), pos + 2
        third = buf[pos + 2]
        if third < 0x80:
            value = byte & 0x7F | (second & 0x7F) << 7 | third << 14
            return (value >> 1) ^ -(value & 1), pos + 3
        value, pos = _read_unsigned(buf, pos, shift_limit)
        value &= mask
        return (value >> 1) ^ -(value & 1), pos

    return read


read_varint = _reader(shift_limit=35, mask=0xFFFFFFFF)
"""A signed 32-bit integer and the position after it."""

read_varlong = _reader(shift_limit=70, mask=0xFFFFFFFFFFFFFFFF)
"""A signed 64-bit integer and the position after it."""


def encode(value: int) -> bytes:
    """The bytes of a signed integer of up to 64 bits."""
    unsigned = (value << 1) ^ (value >> 63)
    if unsigned < 0x80:
        return _ONE_BYTE[unsigned]
    out = bytearray()
    while unsigned >= 0x80:
        out.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    out.append(unsigned)
    return bytes(out)
