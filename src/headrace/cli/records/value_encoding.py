"""Converts keys and values between bytes and readable text. Pure.

A decoder makes bytes readable; an encoder is its inverse. Text is UTF-8. A terminal gets bytes that
are not UTF-8 as \\xNN; a pipe gets the bytes unchanged.
"""

import base64
import binascii
import json
import struct
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from headrace.cli.control_characters import escape_controls

Readable: TypeAlias = object
"""Text, a number, or any JSON value."""


class BadValue(ValueError):
    """The value does not match its encoding."""


class ValueEncoding(StrEnum):
    """The encoding of a key, a value or a header."""

    TEXT = "text"
    RAW = "raw"
    HEX = "hex"
    BASE64 = "base64"
    JSON = "json"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT = "float"
    DOUBLE = "double"


# Big-endian, as Java's serializers write them.
_NUMBERS: Final[Mapping[ValueEncoding, struct.Struct]] = {
    ValueEncoding.INT8: struct.Struct(">b"),
    ValueEncoding.INT16: struct.Struct(">h"),
    ValueEncoding.INT32: struct.Struct(">i"),
    ValueEncoding.INT64: struct.Struct(">q"),
    ValueEncoding.FLOAT: struct.Struct(">f"),
    ValueEncoding.DOUBLE: struct.Struct(">d"),
}


def decode(data: bytes | None, coding: ValueEncoding) -> Readable | None:
    """The decoded value; None stays None. Raises `BadValue`."""
    if data is None:
        return None
    number = _NUMBERS.get(coding)
    if number is not None:
        if len(data) != number.size:
            raise BadValue(f"{coding.value} needs {number.size} bytes, not {len(data)}")
        (found,) = number.unpack(data)
        return float(found) if coding in {ValueEncoding.FLOAT, ValueEncoding.DOUBLE} else int(found)
    match coding:
        case ValueEncoding.HEX:
            return data.hex()
        case ValueEncoding.BASE64:
            return base64.b64encode(data).decode()
        case ValueEncoding.JSON:
            try:
                parsed: object = json.loads(data)
            except ValueError as error:
                raise BadValue(f"invalid JSON: {error}") from error
            return parsed
    return data.decode("utf-8", "backslashreplace")


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8 text, so that `decode` loses nothing."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def shown(data: bytes | None, coding: ValueEncoding, *, for_terminal: bool = False) -> bytes:
    """The bytes to print: none for None, unchanged for `raw`.

    A pipe gets text unchanged. A terminal gets control characters as escapes.
    """
    if data is None:
        return b""
    if coding is ValueEncoding.RAW or (coding is ValueEncoding.TEXT and not for_terminal):
        return data
    value = decode(data, coding)
    text = json.dumps(value, ensure_ascii=False) if coding is ValueEncoding.JSON else str(value)
    return (escape_controls(text) if for_terminal else text).encode()


def encode(text: str, coding: ValueEncoding) -> bytes:
    """The bytes of an encoded text. Raises `BadValue`."""
    number = _NUMBERS.get(coding)
    try:
        if number is not None:
            kind: Callable[[str], float] = (
                float if coding in {ValueEncoding.FLOAT, ValueEncoding.DOUBLE} else int
            )
            return number.pack(kind(text))
        match coding:
            case ValueEncoding.HEX:
                return bytes.fromhex(text)
            case ValueEncoding.BASE64:
                return base64.b64decode(text, validate=True)
            case ValueEncoding.JSON:
                json.loads(text)
    except (ValueError, struct.error, OverflowError, binascii.Error) as error:
        detail = f": {error}" if coding is ValueEncoding.JSON else ""
        raise BadValue(f"{text!r} is not {coding.value}{detail}") from error
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadValue(f"{text!r} is not text: {error.reason}") from error
