"""What stays of one batch.

A batch of which everything stays is copied as it is; one of which nothing stays goes, or leaves an
empty batch behind where its header is still needed: for a producer's last sequence, and for the
last offset of what was cleaned. Otherwise the batch is built again from the bytes of the records
that stay. Offsets, sequences and the batch's range never change (KIP-98); tombstones and markers
get a date on which they go, in the place of the base timestamp (KIP-534).
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TypeAlias

from headrace.records import varint
from headrace.records.batch import (
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
from headrace.storage.cleaning.aborted_transactions import TransactionWalk
from headrace.storage.cleaning.job import LastOfProducer
from headrace.storage.cleaning.key_map import (
    DIGEST_BYTES,
    MAX_PLAIN_KEY_BYTES,
    KeyMap,
    longer,
    unreadable,
)
from headrace.storage.cleaning.segment_reader import payload_of

Kept: TypeAlias = tuple[BatchHeader, Buffer] | None
"""The batch as it is written, or nothing."""

_MAX_PLAIN_KEY = MAX_PLAIN_KEY_BYTES << 1
_NO_OFFSET = -1


class BatchFilter:
    """Decides over the batches of one log, from its start on, in order."""

    __slots__ = ("_delete_horizon_ms", "_end", "_keys", "_now_ms", "_producers", "_walk")

    def __init__(
        self,
        keys: KeyMap,
        walk: TransactionWalk,
        producers: Iterable[LastOfProducer],
        *,
        end: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._keys = keys
        self._walk = walk
        self._producers = {last.producer_id: last for last in producers}
        self._end = end
        self._now_ms = now_ms
        self._delete_horizon_ms = now_ms + delete_retention_ms

    def keep(self, header: BatchHeader, chunk: bytes, at: int) -> Kept:
        """What stays of the batch that stands in `chunk` at `at`."""
        batch = memoryview(chunk)[at : at + header.size]
        if header.is_control:
            return self._keep_marker(header, batch)
        if self._walk.meet_batch(header):
            return self._emptied(header)
        if header.record_count == 0:
            return (header, batch) if self._must_stay(header) else None
        keys = self._keys
        if header.base_offset >= keys.end:
            return header, batch  # the map was full before it came here
        survivors = keys.survivors(header)
        if survivors is None:
            return self._keep_records(header, batch, *payload_of(chunk, at, header))
        if len(survivors) == header.record_count:
            return header, batch
        if not survivors:
            return self._emptied(header)
        data, pos, end = payload_of(chunk, at, header)
        return rebuilt(header, data, pick_records(header, data, pos, end, survivors))

    def _keep_marker(self, header: BatchHeader, batch: memoryview) -> Kept:
        """A marker whose transaction is gone gets its date, and goes when that has come."""
        needless = self._walk.meet_marker(header, batch)
        if header.record_count == 0:
            return (header, batch) if self._must_stay(header) else None
        if not needless or header.record_count > 1:
            return header, batch
        if not header.has_delete_horizon:
            data, start, end = payload_of(bytes(batch), 0, header)
            body = varint.read_varint(data, start)[1]
            return rebuilt(header, data, [(start, body, end)], self._delete_horizon_ms)
        if header.base_timestamp <= self._now_ms:
            return self._emptied(header)
        return header, batch

    def _keep_records(
        self, header: BatchHeader, batch: memoryview, data: bytes, pos: int, end: int
    ) -> Kept:
        drops_tombstones = header.has_delete_horizon and header.base_timestamp <= self._now_ms
        kept, has_tombstones = select_records(
            header, data, pos, end, self._keys.latest, drops_tombstones=drops_tombstones
        )
        if not kept:
            return self._emptied(header)
        needs_horizon = has_tombstones and not header.has_delete_horizon
        if needs_horizon:
            return rebuilt(header, data, kept, self._delete_horizon_ms)
        if len(kept) == header.record_count:
            return header, batch
        return rebuilt(header, data, kept)

    def _emptied(self, header: BatchHeader) -> Kept:
        return emptied(header) if self._must_stay(header) else None

    def _must_stay(self, header: BatchHeader) -> bool:
        """Whether the batch is kept even without records."""
        if header.next_offset == self._end:
            return True  # the log's last clean offset is known from it
        last = self._producers.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset == _NO_OFFSET:
            return header.is_control and header.producer_epoch == last.epoch
        return header.last_offset == last.last_offset


def select_records(
    header: BatchHeader,
    data: bytes,
    pos: int,
    end: int,
    latest: dict[bytes, int],
    *,
    drops_tombstones: bool,
) -> tuple[list[tuple[int, int, int]], bool]:
    """The records to keep, as (start, after the length, end); whether one has no value.

    As `note_keys`, this is an inner loop: no calls, no objects that are not needed.
    """
    base = header.base_offset
    offset_of = latest.get
    kept: list[tuple[int, int, int]] = []
    has_tombstones = False
    try:
        for _ in range(header.record_count):
            start = pos
            size = data[pos]
            pos += 1
            if size > 127:
                size += (data[pos] - 1) << 7
                pos += 1
                if size > 16383:
                    size, pos = longer(data, pos, size)
            body = pos
            record_end = pos + (size >> 1)
            pos += 1
            while data[pos] > 127:
                pos += 1
            delta = data[pos + 1]
            pos += 2
            if delta > 127:
                delta += (data[pos] - 1) << 7
                pos += 1
                if delta > 16383:
                    delta, pos = longer(data, pos, delta)
            length = data[pos]
            pos += 1
            if length > 127:
                length, pos = longer(data, pos, length, 7)
            if length & 1:
                pos = record_end
                continue  # nobody can ask for a record without a key
            value_at = pos + (length >> 1)
            if value_at >= record_end or size & 1:
                raise IndexError
            key = data[pos:value_at]
            if length > _MAX_PLAIN_KEY:
                key = blake2b(key, digest_size=DIGEST_BYTES).digest()
            pos = record_end
            if offset_of(key, -1) > base + (delta >> 1):
                continue
            if data[value_at] & 1:
                if drops_tombstones:
                    continue
                has_tombstones = True
            kept.append((start, body, record_end))
    except IndexError:
        pos = -1
    if pos != end:
        raise unreadable(header)
    return kept, has_tombstones


def pick_records(
    header: BatchHeader, data: bytes, pos: int, end: int, offsets: Sequence[int]
) -> list[tuple[int, int, int]]:
    """The records at these offsets; what `select_records` finds, without a look at the keys."""
    base = header.base_offset
    wanted = {(offset - base) << 1 for offset in offsets}
    kept: list[tuple[int, int, int]] = []
    try:
        for _ in range(header.record_count):
            start = pos
            size = data[pos]
            pos += 1
            if size > 127:
                size += (data[pos] - 1) << 7
                pos += 1
                if size > 16383:
                    size, pos = longer(data, pos, size)
            body = pos
            record_end = pos + (size >> 1)
            pos += 1
            while data[pos] > 127:
                pos += 1
            delta = data[pos + 1]
            if delta > 127:
                delta += (data[pos + 2] - 1) << 7
                if delta > 16383:
                    delta, _ = longer(data, pos + 3, delta)
            if delta in wanted:
                kept.append((start, body, record_end))
            pos = record_end
    except IndexError:
        pos = -1
    if pos != end or len(kept) != len(wanted):
        raise unreadable(header)
    return kept


def rebuilt(
    header: BatchHeader,
    data: bytes,
    kept: Sequence[tuple[int, int, int]],
    delete_horizon_ms: int | None = None,
) -> tuple[BatchHeader, bytes]:
    """The batch with those records only; with a new date for its tombstones if one is given."""
    attributes, base, max_timestamp = header.attributes, header.base_timestamp, header.max_timestamp
    if not attributes & TIMESTAMP_TYPE_FLAG:
        max_timestamp = _newest(header, data, kept)
    if delete_horizon_ms is None:
        payload = b"".join([data[start:end] for start, _, end in kept])
    else:
        payload = _shifted(data, kept, base - delete_horizon_ms)
        base = delete_horizon_ms
        attributes |= DELETE_HORIZON_FLAG
    codec = Codec(attributes & CODEC_MASK)
    if codec is not Codec.NONE:
        payload = compress(codec, payload)
    return _assembled(
        header._replace(
            attributes=attributes,
            base_timestamp=base,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        ),
        payload,
    )


def _newest(header: BatchHeader, data: bytes, kept: Sequence[tuple[int, int, int]]) -> int:
    """The largest timestamp of these records: mostly the last one's."""
    base = header.base_timestamp
    last = base + varint.read_varlong(data, kept[-1][1] + 1)[0]
    if last == header.max_timestamp:
        return last
    return base + max(varint.read_varlong(data, body + 1)[0] for _, body, _ in kept)


def _shifted(data: bytes, kept: Sequence[tuple[int, int, int]], shift_ms: int) -> bytes:
    """The records for a base timestamp that is `shift_ms` earlier than theirs was."""
    parts = []
    for _, body, end in kept:
        delta, rest = varint.read_varlong(data, body + 1)
        record = b"".join((data[body : body + 1], varint.encode(delta + shift_ms), data[rest:end]))
        parts.append(varint.encode(len(record)))
        parts.append(record)
    return b"".join(parts)


def emptied(header: BatchHeader) -> tuple[BatchHeader, bytes]:
    """The batch without records: its offsets, its producer and its place in time remain."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    return _assembled(
        header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b""
    )


def _assembled(header: BatchHeader, payload: bytes) -> tuple[BatchHeader, bytes]:
    batch = bytearray(HEADER_SIZE)
    batch += payload
    header = header._replace(batch_length=len(batch) - LOG_OVERHEAD)
    pack_header(batch, 0, header)
    header = header._replace(crc=crc_of(batch, 0, len(batch)))
    pack_header(batch, 0, header)
    return header, bytes(batch)
