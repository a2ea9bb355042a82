"""Decodes fetched bytes to Arrow: checks, decompresses, filters and decodes batches.

Guarantees: a record is returned if and only if its offset is requested and, for a reader of
committed data, its transaction was not aborted. Control records are never returned. A damaged batch
raises `DamagedBatch` with its offset and the reason. For a reader that skips damaged batches, it is
listed with its bytes. No record is skipped silently.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from headrace.records.aborted_transactions import Aborted, AbortedRecords, is_hidden
from headrace.records.arrow.columns import SMALLEST_RECORD_BYTES, RecordArrays, RecordColumns
from headrace.records.arrow.kernel import DONE, REASONS
from headrace.records.batch_header import (
    HEADER_SIZE,
    BatchHeader,
    TimestampType,
    check_batch,
    headers,
)
from headrace.records.buffer import Buffer
from headrace.records.codec import Codec, decompress
from headrace.records.errors import RecordError

MAX_DECOMPRESSED_BYTES: Final = 1 << 30
"""The limit for one batch. Arrow's 32-bit offsets allow twice that."""
PIECE_BYTES: Final = 64 << 20
"""The decompressed size that is decoded in one piece, unless one batch is larger. Decompression may
increase the size a thousandfold."""


class DamagedBatch(Exception):
    """A batch that cannot be read; the next readable offset is unknown."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class Damaged(NamedTuple):
    """A batch that cannot be read: its offsets from `start` up to `end`, and its bytes."""

    start: int
    end: int
    reason: str
    data: bytes


class Decoded(NamedTuple):
    """Records, and the offset after their last batch."""

    records: RecordArrays
    next_offset: int
    damaged: Sequence[Damaged] = ()


class _Frame(NamedTuple):
    """A batch's position and header, and the position of the next batch."""

    pos: int
    header: BatchHeader
    following: int


class _Piece(NamedTuple):
    frame: _Frame
    payload: Buffer


def decode_batches(
    data: Buffer,
    *,
    start: int,
    end: int,
    aborted: Iterable[Aborted] | None = None,
    with_headers: bool = False,
    max_batch_bytes: int = MAX_DECOMPRESSED_BYTES,
    piece_bytes: int = PIECE_BYTES,
    skip_damaged: bool = False,
) -> Iterator[Decoded]:
    """The records with start <= offset < end of whole batches; a partial last one is ignored.
    Yields several results if the decompressed batches are larger than `piece_bytes`. `aborted` is
    None for a reader of uncommitted data. With `skip_damaged`, unreadable batches are listed in the
    result. Bytes that do not begin like a batch always raise an error, as the next batch is
    unknown.
    """
    view = memoryview(data)
    filtering = None if aborted is None else AbortedRecords(aborted)
    damage = _DamagedBatches(view, start, end, skips=skip_damaged)
    pieces: list[_Piece] = []
    waiting_bytes, next_offset = 0, start

    def decoded() -> Decoded:
        records = _fill(pieces, start, end, with_headers, damage)
        pieces.clear()
        return Decoded(records, min(next_offset, end), damage.drain())

    for frame in _frames(view, start, end):
        try:
            payload = _payload(view, frame, start, filtering, max_batch_bytes)
        except RecordError as error:
            damage.add(frame, str(error))
            if filtering is not None and frame.header.is_control:
                filtering.ended(frame.header.producer_id)  # so that later records are returned
            payload = None
        if payload is not None:
            if pieces and waiting_bytes + len(payload) > piece_bytes:
                yield decoded()
                waiting_bytes = 0
            pieces.append(_Piece(frame, payload))
            waiting_bytes += len(payload)
        next_offset = max(next_offset, frame.following)
    yield decoded()


class _DamagedBatches:
    """Raises an error for a damaged batch, or lists it."""

    def __init__(self, view: memoryview, start: int, end: int, *, skips: bool) -> None:
        self._view = view
        self._start = start
        self._end = end
        self._skips = skips
        self._listed: list[Damaged] = []

    def add(self, frame: _Frame, reason: str) -> None:
        first = max(frame.header.base_offset, self._start)
        if not self._skips:
            raise DamagedBatch(first, reason)
        batch = bytes(self._view[frame.pos : frame.pos + frame.header.size])
        self._listed.append(Damaged(first, min(frame.following, self._end), reason, batch))

    def drain(self) -> tuple[Damaged, ...]:
        """The batches that were listed since the last call."""
        listed, self._listed = tuple(self._listed), []
        return listed


def _frames(view: memoryview, start: int, end: int) -> Iterator[_Frame]:
    """The whole batches that begin before `end`.

    The next batch determines where a batch ends, because the batch's own header may be damaged.
    """
    try:
        found = list(headers(view, partial_tail=True))
    except RecordError as error:
        raise DamagedBatch(start, str(error)) from error
    for i, (pos, header) in enumerate(found):
        if header.base_offset >= end:
            return
        following = found[i + 1][1].base_offset if i + 1 < len(found) else header.next_offset
        yield _Frame(pos, header, max(following, header.base_offset + 1))


def _payload(
    view: memoryview,
    frame: _Frame,
    start: int,
    filtering: "AbortedRecords | None",
    max_batch_bytes: int,
) -> Buffer | None:
    """The batch's decompressed records; None if there are none to return."""
    pos, header = frame.pos, frame.header
    check_batch(view, pos, header)
    if header.next_offset <= start or is_hidden(view[pos : pos + header.size], header, filtering):
        return None
    packed = view[pos + HEADER_SIZE : pos + header.size]
    codec = header.codec
    if codec is Codec.NONE:
        return packed
    return decompress(codec, packed, max_bytes=max_batch_bytes)


def _fill(
    pieces: Sequence[_Piece], start: int, end: int, with_headers: bool, damage: _DamagedBatches
) -> RecordArrays:
    whole = []
    for piece in pieces:
        count, size_bytes = piece.frame.header.record_count, len(piece.payload)
        if 0 <= count * SMALLEST_RECORD_BYTES <= size_bytes:
            whole.append(piece)
        else:
            damage.add(piece.frame, f"{count} records are announced in {size_bytes} bytes")
    rows = sum(piece.frame.header.record_count for piece in whole)
    size_bytes = sum(len(piece.payload) for piece in whole)
    columns = RecordColumns(rows, size_bytes, with_headers=with_headers)
    for frame, payload in whole:
        header = frame.header
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
        if status != DONE:  # keep no record of the batch
            reason = f"record {index} of the batch cannot be read: {REASONS[status]}"
            damage.add(frame, reason)
    return columns.arrays()
