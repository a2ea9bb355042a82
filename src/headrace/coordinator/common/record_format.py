"""The records of an internal topic: Kafka's keys and values, decoded and encoded.

A key is a 16-bit record type and a struct of version 0. A value is a 16-bit version and a struct of
that version; a record without a value is a tombstone. Loading skips record types that this release
does not know: a newer broker may have written them.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headrace.protocol.errors import ProtocolError
from headrace.protocol.struct import Struct
from headrace.protocol.types import Buffer
from headrace.records.small_batch_builder import KeyAndValue

_INT16: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0


class RecordChange(NamedTuple):
    """One record: `value` is the new value of `key`; None deletes it."""

    key: Struct
    value: Struct | None


class RecordType(NamedTuple):
    """One record type; `number` is its number, which precedes its keys."""

    number: int
    key: type[Struct]
    value: type[Struct]
    value_version: int
    """The version to write; every version that `value` declares can be read."""


class UnreadableRecord(Exception):
    """A record of a known type that does not follow Kafka's schema."""


class RecordFormat:
    """The record types of one internal topic."""

    def __init__(self, types: Iterable[RecordType]) -> None:
        self._by_number: Mapping[int, RecordType] = {kind.number: kind for kind in types}
        # For each class of keys: the prefix of the key, the prefix of the value, and its version.
        self._written: Mapping[type[Struct], tuple[bytes, bytes, int]] = {
            kind.key: (
                _INT16.pack(kind.number),
                _INT16.pack(kind.value_version),
                kind.value_version,
            )
            for kind in self._by_number.values()
        }

    def encode(self, change: RecordChange) -> KeyAndValue:
        """The key and value of the record."""
        key, value = change
        before_key, before_value, version = self._written[type(key)]
        encoded = before_key + key.encode(_KEY_VERSION)
        if value is None:
            return encoded, None
        return encoded, before_value + value.encode(version)

    def decode(self, key: Buffer | None, value: Buffer | None) -> RecordChange | None:
        """The change, or None if its type is unknown; raises `UnreadableRecord`."""
        if key is None or len(key) < _INT16.size:
            raise UnreadableRecord("a record of an internal topic has no key")
        (number,) = _INT16.unpack_from(key)
        kind = self._by_number.get(number)
        if kind is None:
            return None
        try:
            decoded_key = kind.key.decode(key[_INT16.size :], _KEY_VERSION)
            return RecordChange(decoded_key, _decode_value(kind, value))
        except (ProtocolError, struct.error) as error:
            raise UnreadableRecord(f"a record of type {number}: {error}") from error


def _decode_value(kind: RecordType, value: Buffer | None) -> Struct | None:
    if value is None:
        return None
    (version,) = _INT16.unpack_from(value)
    # An old version must not have trailing bytes; a newer one may have tagged fields.
    decoded, _ = kind.value.read(value, _INT16.size, len(value), version)
    return decoded
