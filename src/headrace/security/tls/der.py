"""Reads DER (X.690): the encoding of certificates.

Guarantees: any bytes give an element or `InvalidDer`. Each element lies within its parent, lengths
have their shortest form, and nothing is copied before its length has been checked. Certificates
come from clients that are not authenticated yet.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

BOOLEAN: Final = 0x01
OCTET_STRING: Final = 0x04
OBJECT_IDENTIFIER: Final = 0x06
SEQUENCE: Final = 0x30
SET: Final = 0x31

_LONG_TAG: Final = 0x1F
_LONG_LENGTH: Final = 0x80
_MAX_LENGTH_BYTES: Final = 4
_MAX_ARC_BYTES: Final = 19  # 128 bits, as in UUIDs under 2.25


class InvalidDer(ValueError):
    """The bytes are not DER, or not of the expected structure."""


class Element(NamedTuple):
    """A tag with its contents; `encoded` has the tag and the length, too."""

    tag: int
    contents: bytes
    encoded: bytes


def read_element(data: bytes) -> Element:
    """The only element in `data`."""
    elements = list(read_elements(data))
    if len(elements) != 1:
        raise InvalidDer(f"expected one element, got {len(elements)}")
    return elements[0]


def read_elements(data: bytes) -> Iterator[Element]:
    """The elements that follow each other in `data`."""
    at = 0
    while at < len(data):
        start = at
        if at + 2 > len(data):
            raise InvalidDer("an element is cut off")
        tag, length = data[at], data[at + 1]
        if tag & _LONG_TAG == _LONG_TAG:
            raise InvalidDer("tags above 30 are not used in certificates")
        at += 2
        if length & _LONG_LENGTH:
            length, at = _long_length(data, at, length & ~_LONG_LENGTH)
        if at + length > len(data):
            raise InvalidDer("an element is longer than its parent")
        yield Element(tag, data[at : at + length], data[start : at + length])
        at += length


def children(element: Element, tag: int) -> list[Element]:
    """The elements inside `element`, which must have this tag."""
    if element.tag != tag:
        raise InvalidDer(f"expected tag {tag:#04x}, got {element.tag:#04x}")
    return list(read_elements(element.contents))


def object_identifier(element: Element) -> str:
    """The dotted form of an object identifier, e.g. 2.5.4.3."""
    contents = element.contents
    if element.tag != OBJECT_IDENTIFIER or not contents:
        raise InvalidDer("expected an object identifier")
    arcs: list[int] = []
    number = size = 0
    for byte in contents:
        if not size and byte == _LONG_LENGTH:
            raise InvalidDer("an arc of an object identifier has a leading zero")
        number = number << 7 | byte & 0x7F
        size += 1
        if size > _MAX_ARC_BYTES:
            raise InvalidDer("an arc of an object identifier is too long")
        if not byte & _LONG_LENGTH:
            arcs.append(number)
            number = size = 0
    if size:
        raise InvalidDer("an object identifier is cut off")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - first * 40, *arcs[1:])))


def _long_length(data: bytes, at: int, size: int) -> tuple[int, int]:
    """A length of more than one byte, and where the contents begin."""
    if not 0 < size <= _MAX_LENGTH_BYTES or at + size > len(data):
        raise InvalidDer("invalid length")
    length = int.from_bytes(data[at : at + size], "big")
    if length < _LONG_LENGTH or length >> 8 * (size - 1) == 0:
        raise InvalidDer("a length is not in its shortest form")
    return length, at + size
