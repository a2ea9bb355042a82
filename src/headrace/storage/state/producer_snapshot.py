"""Producer snapshots (`<offset>.snapshot`): the producers' state at that offset, with a CRC.

Kafka's version 1. It holds only the last batch of each producer; `producer_recovery` reads the
others from the log. A torn or damaged snapshot is detected and ignored, and more of the log is
replayed.
"""

import struct
from struct import Struct

from headrace.records.checksum import crc32c
from headrace.storage.errors import StorageError
from headrace.storage.state.producers import NO_OFFSET, BatchMetadata, ProducerEntry

VERSION = 1
_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class CorruptSnapshot(StorageError):
    """The file is not an intact snapshot."""


def encode(entries: list[ProducerEntry]) -> bytes:
    parts = [_COUNT.pack(len(entries))]
    for entry in entries:
        trace = entry.batches[-1] if entry.batches else None
        parts.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                trace.last_sequence if trace else -1,
                trace.last_offset if trace else -1,
                trace.offset_delta if trace else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )
        )
    body = b"".join(parts)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerEntry]:
    try:
        version, crc = _PREFIX.unpack_from(data)
        if version != VERSION:
            raise CorruptSnapshot(
                f"producer snapshot has version {version}, only {VERSION} is supported"
            )
        body = data[_PREFIX.size :]
        if crc32c(body) != crc:
            raise CorruptSnapshot("producer snapshot: the checksum is wrong")
        (count,) = _COUNT.unpack_from(body)
    except struct.error:
        raise CorruptSnapshot(f"producer snapshot of {len(data)} bytes is too short") from None
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"producer snapshot claims {count} entries in {len(body)} bytes")
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerEntry:
    batches = []
    if last_offset >= 0:
        batches.append(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp))
    return ProducerEntry(
        producer_id, epoch, coordinator_epoch, timestamp, max(txn_first_offset, NO_OFFSET), batches
    )
