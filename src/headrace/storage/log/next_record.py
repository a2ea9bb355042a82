"""The first record at or after an offset that a consumer still has to read.

Transaction markers are skipped, and so are offsets that compaction has emptied and, on request, the
records of aborted transactions. The search reads batch headers only. It reads a whole batch if the
header alone does not give the record's offset and timestamp. `first_record` then decodes it, in any
thread: decompression may take longer than the event loop can wait.
"""

from typing import Final, NamedTuple

from headrace.records.batch_header import BatchHeader, TimestampType, check_batch, read_header
from headrace.records.codec import MAX_DECOMPRESSED_BYTES
from headrace.records.errors import RecordError
from headrace.records.record_outline import iter_outlines
from headrace.storage.errors import LogCorrupt
from headrace.storage.log import log_reader
from headrace.storage.log.local_log import LocalLog
from headrace.storage.segment.aborted_txn import AbortedTxn
from headrace.storage.segment.segment import Segment

MAX_BATCHES: Final = 128  # headers read in one step: well under a millisecond


class NextRecord(NamedTuple):
    """A record's offset and its timestamp, which is -1 if it has none."""

    offset: int
    timestamp: int


class NextBatch(NamedTuple):
    """The bytes of a batch that may have a wanted record: one from `offset` on."""

    data: bytes
    offset: int

    @property
    def end(self) -> int:
        """The offset after the batch."""
        return read_header(self.data).next_offset


class NothingBefore(NamedTuple):
    """There is no wanted record before this offset; if it is not the limit, search on from it."""

    offset: int


def find_next(
    local: LocalLog, offset: int, limit: int, *, skip_aborted: bool
) -> NextRecord | NextBatch | NothingBefore:
    """One step of the search from `offset` up to `limit`; raises `StorageError`."""
    local.ensure_loaded()
    offset = max(offset, local.log_start_offset)
    limit = min(limit, local.log_end_offset)
    if offset >= limit:
        return NothingBefore(limit)
    try:
        return _Search(local, offset, limit, skip_aborted=skip_aborted).step()
    except (RecordError, FileNotFoundError) as error:
        raise LogCorrupt(f"{local.name} cannot be read from offset {offset}: {error}") from error
    except OSError as error:
        raise local.directory.fault(error, f"reading {local.name}") from error


def first_record(batch: NextBatch) -> NextRecord | None:
    """The first record of the batch from its `offset` on; None if compaction has removed them all.

    Raises `LogCorrupt`.
    """
    data = batch.data
    try:
        header = read_header(data)
        check_batch(data, 0, header)
        for record in iter_outlines(
            data, max_bytes=MAX_DECOMPRESSED_BYTES, max_records=header.record_count
        ):
            offset = header.base_offset + record.offset_delta
            if offset >= batch.offset:
                return NextRecord(offset, record.timestamp)
    except RecordError as error:
        raise LogCorrupt(f"the batch at offset {batch.offset} cannot be read: {error}") from error
    return None


class _Search:
    """One step: at most `MAX_BATCHES` headers."""

    def __init__(self, local: LocalLog, offset: int, limit: int, *, skip_aborted: bool) -> None:
        self._local = local
        self._offset = offset
        self._limit = limit
        self._skip_aborted = skip_aborted
        self._aborted: list[AbortedTxn] | None = None  # read when the first transaction is found
        self._left = MAX_BATCHES

    def step(self) -> NextRecord | NextBatch | NothingBefore:
        local = self._local
        for segment in local.segments.from_offset(self._offset):
            found = self._search_segment(segment)
            if found is not None:
                return found
        return NothingBefore(self._limit)

    def _search_segment(self, segment: Segment) -> NextRecord | NextBatch | NothingBefore | None:
        start = segment.find(self._offset)
        if start is None:
            return None
        for position, header in segment.headers_from(start[0]):
            if header.base_offset >= self._limit:
                return NothingBefore(self._limit)
            if self._left == 0:
                return NothingBefore(max(self._offset, header.base_offset))
            self._left -= 1
            if header.is_control or not header.record_count or self._is_aborted(header):
                continue
            offset = max(header.base_offset, self._offset)
            timestamp = _common_timestamp(header)
            if timestamp is not None:
                return NextRecord(offset, timestamp)
            return NextBatch(segment.read(position, header.size), offset)
        return None

    def _is_aborted(self, header: BatchHeader) -> bool:
        if not (self._skip_aborted and header.is_transactional):
            return False
        if self._aborted is None:
            self._aborted = log_reader.aborted_transactions(
                self._local, header.base_offset, self._limit
            )
        return any(
            txn.producer_id == header.producer_id
            and txn.first_offset <= header.base_offset <= txn.last_offset
            for txn in self._aborted
        )


def _common_timestamp(header: BatchHeader) -> int | None:
    """The timestamp of all records of the batch, if the header shows it and no record is missing.

    A batch without gaps has a record at every offset.
    """
    if header.record_count != header.last_offset_delta + 1:
        return None
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME or header.record_count == 1:
        return header.max_timestamp
    return None
