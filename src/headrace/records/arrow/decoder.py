"""Fetched bytes into Arrow: batches are checked, unpacked, filtered and decoded.

Guarantees: a record is returned if and only if its offset is asked for and, for a reader of
committed data, its transaction was not aborted; control records never are. A damaged batch raises
`DamagedBatch` with the place and the reason; nothing is skipped in silence.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from headrace.records.arrow.columns import SMALLEST_RECORD_BYTES, Columns, RecordArrays
from headrace.records.arrow.kernel import DONE, REASONS
from headrace.records.batch import HEADER_SIZE, BatchHeader, TimestampType, check_batch, headers
from headrace.records.buffer import Buffer
from headrace.records.codec import Codec, decompress
from headrace.records.control import ControlType, read_control
from headrace.records.errors import RecordError
from headrace.records.record import iter_records

MAX_DECOMPRESSED_BYTES: Final = 1 << 30
"""Of one batch; Arrow's 32-bit offsets end at twice that."""


class Aborted(NamedTuple):
    """A transaction that was aborted: its producer's records from `first_offset` on, up to its
    marker, are not to be seen. As a Fetch response lists them."""

    producer_id: int
    first_offset: int


class DamagedBatch(Exception):
    """A batch that cannot be read; the next readable offset is unknown."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class Decoded(NamedTuple):
    """Records, and where to read on: behind the last whole batch."""

    records: RecordArrays
    next_offset: int


class _Piece(NamedTuple):
    header: BatchHeader
    payload: Buffer


def decode_batches(
    data: Buffer,
    *,
    start: int,
    end: int,
    aborted: Iterable[Aborted] | None = None,
    with_headers: bool = False,
    max_batch_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Decoded:
    """The records with start <= offset < end from whole batches; a part of one at the end is left.

    `aborted` is None for a reader of uncommitted data.
    """
    view = memoryview(data)
    pieces: list[_Piece] = []
    next_offset = start
    filtering = None if aborted is None else _AbortedRecords(sorted(aborted, key=_first_offset))
    try:
        for pos, header in headers(view, partial_tail=True):
            if header.base_offset >= end:
                next_offset = max(next_offset, end)
                break
            next_offset = max(next_offset, header.next_offset)
            if header.next_offset <= start:
                continue
            check_batch(view, pos, header)
            if _is_hidden(view[pos : pos + header.size], header, filtering):
                continue
            packed = view[pos + HEADER_SIZE : pos + header.size]
            codec = header.codec
            payload = (
                packed
                if codec is Codec.NONE
                else decompress(codec, packed, max_bytes=max_batch_bytes)
            )
            pieces.append(_Piece(header, payload))
    except RecordError as error:
        raise DamagedBatch(next_offset, str(error)) from error
    return Decoded(_fill(pieces, start, end, with_headers), min(next_offset, end))


def _fill(pieces: Sequence[_Piece], start: int, end: int, with_headers: bool) -> RecordArrays:
    rows = sum(piece.header.record_count for piece in pieces)
    size_bytes = sum(len(piece.payload) for piece in pieces)
    for header, payload in pieces:
        if not 0 <= header.record_count * SMALLEST_RECORD_BYTES <= len(payload):
            reason = f"{header.record_count} records are announced in {len(payload)} bytes"
            raise DamagedBatch(header.base_offset, reason)
    columns = Columns(rows, size_bytes, with_headers=with_headers)
    for header, payload in pieces:
        appended = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        status, index = columns.fill(
            payload,
            count=header.record_count,
            base_offset=header.base_offset,
            last_delta=header.last_offset_delta,
            base_timestamp=header.base_timestamp,
            append_time=header.max_timestamp if appended else -1,
            start=start,
            end=end,
        )
        if status != DONE:
            reason = f"record {index} of the batch cannot be read: {REASONS[status]}"
            raise DamagedBatch(header.base_offset, reason)
    return columns.arrays()


class _AbortedRecords:
    """Follows which producers are inside an aborted transaction, batch by batch."""

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        self._to_come = list(reversed(aborted))
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        while self._to_come and self._to_come[-1].first_offset <= header.last_offset:
            self._open.add(self._to_come.pop().producer_id)
        return header.is_transactional and header.producer_id in self._open

    def ended(self, producer_id: int) -> None:
        self._open.discard(producer_id)


def _is_hidden(batch: memoryview, header: BatchHeader, filtering: _AbortedRecords | None) -> bool:
    if header.is_control:
        if filtering is not None:
            record = next(iter_records(batch, max_bytes=MAX_DECOMPRESSED_BYTES), None)
            if record is not None and read_control(record).type is ControlType.ABORT:
                filtering.hides(header)
                filtering.ended(header.producer_id)
        return True
    return filtering is not None and filtering.hides(header)


def _first_offset(aborted: Aborted) -> int:
    return aborted.first_offset
