"""Damages batches of a log on disk."""

import struct
from collections.abc import Callable
from pathlib import Path

from headrace.records.batch_header import HEADER_SIZE, crc_of, headers

Damage = Callable[[bytearray], None]
"""Changes one batch and keeps its length."""


def damage(log: Path, damages: dict[int, Damage]) -> None:
    """Damages the batches with these indexes in a segment's file."""
    data = bytearray(log.read_bytes())
    for number, (pos, header) in enumerate(list(headers(data))):
        if number in damages:
            batch = data[pos : pos + header.size]
            damages[number](batch)
            data[pos : pos + header.size] = batch
    with log.open("r+b") as file:  # in place: the broker has the file open
        file.write(data)


def _sealed(change: Damage) -> Damage:
    """Makes the checksum match the change, as if a client had written the batch so."""

    def changed(batch: bytearray) -> None:
        change(batch)
        struct.pack_into(">I", batch, 17, crc_of(batch, 0, len(batch)))

    return changed


def _field(at: int, code: str, value: int) -> Damage:
    return lambda batch: struct.pack_into(">" + code, batch, at, value)


flipped_bit: Damage = _field(HEADER_SIZE + 9, "B", 0xFE)
endless_varint: Damage = _sealed(_field(HEADER_SIZE, "Q", 0x8080808080808080))
wrong_count: Damage = _sealed(_field(57, "i", 3))
negative_count: Damage = _sealed(_field(57, "i", -3))
negative_length: Damage = _sealed(_field(HEADER_SIZE + 4, "B", 0x05))
"""The length of the first record's key: -3."""
no_such_codec: Damage = _sealed(_field(21, "h", 7))
garbage_gzip: Damage = _sealed(_field(21, "h", 1))
garbage_zstd: Damage = _sealed(_field(21, "h", 4))
negative_last_offset: Damage = _field(23, "i", -5)
huge_last_offset: Damage = _field(23, "i", 1 << 30)
foreign_base_offset: Damage = _field(0, "q", 1 << 40)
no_magic: Damage = _field(16, "b", 99)
