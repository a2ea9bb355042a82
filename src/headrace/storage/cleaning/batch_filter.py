"""Which records of a batch compaction keeps.

A batch that keeps all its records is copied unchanged. A batch that keeps none is removed, or
becomes an empty batch if its header is still needed: for a producer's last sequence, and for the
last offset of the cleaned part. Otherwise the batch is built again from the bytes of the kept
records. Offsets, sequences and the batch's range never change (KIP-98); tombstones and markers get
a delete horizon in the place of the base timestamp (KIP-534).
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from headrace.records import varint
from headrace.records.batch_header import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    crc_of,
    pack_header,
)
from headrace.records.buffer import Buffer
from headrace.records.codec import Codec, compress
from headrace.storage.cleaning.aborted_transactions import CleanedTransactionMetadata
from headrace.storage.cleaning.cleaner_messages import LastProducerBatch
from headrace.storage.cleaning.key_map import KeyMap
from headrace.storage.cleaning.record_selection import RecordSpan, select_records
from headrace.storage.cleaning.segment_reader import payload_of
from headrace.storage.cleaning.tombstone_retention import (
    has_passed_delete_horizon,
    new_delete_horizon_ms,
)

FilteredBatch: TypeAlias = tuple[BatchHeader, Buffer] | None
"""The batch that is written; None if it is removed."""

_NO_OFFSET = -1


class BatchFilter:
    """Filters the batches of one log, from its start on, in order."""

    __slots__ = ("_delete_horizon_ms", "_end", "_keys", "_now_ms", "_producers", "_transactions")

    def __init__(
        self,
        keys: KeyMap,
        transactions: CleanedTransactionMetadata,
        producers: Iterable[LastProducerBatch],
        *,
        end: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._keys = keys
        self._transactions = transactions
        self._producers = {last.producer_id: last for last in producers}
        self._end = end
        self._now_ms = now_ms
        self._delete_horizon_ms = new_delete_horizon_ms(now_ms, delete_retention_ms)

    def filter_batch(self, header: BatchHeader, chunk: bytes, at: int) -> FilteredBatch:
        """The bytes to write for the batch at position `at` of `chunk`."""
        batch = memoryview(chunk)[at : at + header.size]
        if header.is_control:
            return self._filter_marker(header, batch)
        if self._transactions.on_batch_read(header):
            return self._empty_or_removed(header)
        if header.record_count == 0:
            return (header, batch) if self._is_kept_without_records(header) else None
        keys = self._keys
        if header.base_offset >= keys.end:
            return header, batch  # past the end of the map
        survivors = keys.survivors(header)
        if survivors is None:
            return self._filter_records(header, batch, *payload_of(chunk, at, header))
        if len(survivors) == header.record_count:
            return header, batch
        if not survivors:
            return self._empty_or_removed(header)
        data, pos, end = payload_of(chunk, at, header)
        kept, _ = select_records(header, data, pos, end, keys.latest, survivors=survivors)
        return rebuild_batch(header, data, kept)

    def _filter_marker(self, header: BatchHeader, batch: memoryview) -> FilteredBatch:
        """A marker that is not needed gets a delete horizon, and is removed after it."""
        is_needless = self._transactions.on_control_batch_read(header, batch)
        if header.record_count == 0:
            return (header, batch) if self._is_kept_without_records(header) else None
        if not is_needless or header.record_count > 1:
            return header, batch
        if not header.has_delete_horizon:
            data, start, end = payload_of(bytes(batch), 0, header)
            body = varint.read_varint(data, start)[1]
            return rebuild_batch(header, data, [(start, body, end)], self._delete_horizon_ms)
        if has_passed_delete_horizon(header, self._now_ms):
            return self._empty_or_removed(header)
        return header, batch

    def _filter_records(
        self, header: BatchHeader, batch: memoryview, data: bytes, pos: int, end: int
    ) -> FilteredBatch:
        drops_tombstones = has_passed_delete_horizon(header, self._now_ms)
        kept, has_tombstones = select_records(
            header, data, pos, end, self._keys.latest, drops_tombstones=drops_tombstones
        )
        if not kept:
            return self._empty_or_removed(header)
        needs_horizon = has_tombstones and not header.has_delete_horizon
        if needs_horizon:
            return rebuild_batch(header, data, kept, self._delete_horizon_ms)
        if len(kept) == header.record_count:
            return header, batch
        return rebuild_batch(header, data, kept)

    def _empty_or_removed(self, header: BatchHeader) -> FilteredBatch:
        return empty_batch(header) if self._is_kept_without_records(header) else None

    def _is_kept_without_records(self, header: BatchHeader) -> bool:
        """Whether the batch is kept although it has no records."""
        if header.next_offset == self._end:
            return True  # the batch has the last clean offset
        last = self._producers.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset == _NO_OFFSET:
            return header.is_control and header.producer_epoch == last.epoch
        return header.last_offset == last.last_offset


def rebuild_batch(
    header: BatchHeader,
    data: bytes,
    kept: Sequence[RecordSpan],
    delete_horizon_ms: int | None = None,
) -> tuple[BatchHeader, bytes]:
    """The batch with these records only, and with a delete horizon if one is given."""
    attributes, base, max_timestamp = header.attributes, header.base_timestamp, header.max_timestamp
    if not attributes & TIMESTAMP_TYPE_FLAG:
        max_timestamp = _max_timestamp_of(header, data, kept)
    if delete_horizon_ms is None:
        payload = b"".join([data[start:end] for start, _, end in kept])
    else:
        payload = _shift_timestamps(data, kept, base - delete_horizon_ms)
        base = delete_horizon_ms
        attributes |= DELETE_HORIZON_FLAG
    codec = Codec(attributes & CODEC_MASK)
    if codec is not Codec.NONE:
        payload = compress(codec, payload)
    return _assemble(
        header._replace(
            attributes=attributes,
            base_timestamp=base,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        ),
        payload,
    )


def _max_timestamp_of(header: BatchHeader, data: bytes, kept: Sequence[RecordSpan]) -> int:
    """The largest timestamp of these records; usually the last one has it."""
    base = header.base_timestamp
    last = base + varint.read_varlong(data, kept[-1][1] + 1)[0]
    if last == header.max_timestamp:
        return last
    return base + max(varint.read_varlong(data, body + 1)[0] for _, body, _ in kept)


def _shift_timestamps(data: bytes, kept: Sequence[RecordSpan], shift_ms: int) -> bytes:
    """The records for a base timestamp that is `shift_ms` earlier than before."""
    parts = []
    for _, body, end in kept:
        delta, rest = varint.read_varlong(data, body + 1)
        record = b"".join((data[body : body + 1], varint.encode(delta + shift_ms), data[rest:end]))
        parts.append(varint.encode(len(record)))
        parts.append(record)
    return b"".join(parts)


def empty_batch(header: BatchHeader) -> tuple[BatchHeader, bytes]:
    """The batch without records: its offsets, producer and largest timestamp remain."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    return _assemble(
        header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b""
    )


def _assemble(header: BatchHeader, payload: bytes) -> tuple[BatchHeader, bytes]:
    batch = bytearray(HEADER_SIZE)
    batch += payload
    header = header._replace(batch_length=len(batch) - LOG_OVERHEAD)
    pack_header(batch, 0, header)
    header = header._replace(crc=crc_of(batch, 0, len(batch)))
    pack_header(batch, 0, header)
    return header, bytes(batch)
