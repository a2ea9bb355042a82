"""Appending to a log: check, stamp, write, then update what is known of the records.

Guarantees: an append is all or nothing. After the write nothing can fail: index entries, leader
epochs and producers' state are changed in memory only.
"""

from typing import NamedTuple

from headrace.records.batch_header import LOG_OVERHEAD, BatchHeader, stamp
from headrace.records.buffer import Buffer, WritableBuffer
from headrace.records.record_validation import Inspection
from headrace.records.small_batch_builder import seal_plain_batch
from headrace.storage.errors import DiskFull, StorageError, UnexpectedOffset
from headrace.storage.log.append_validation import AppendRules, Batches, plain_batch, validate
from headrace.storage.log.local_log import LocalLog
from headrace.storage.log.refused_batches import RefusedBatches
from headrace.storage.recovery.segment_scan import read_marker
from headrace.storage.segment.segment import MAX_RELATIVE_OFFSET, Segment
from headrace.storage.state.log_config import MAX_LONG
from headrace.storage.state.producers import BatchMetadata, BatchOrigin, Marker, ProducerEntry

# The markers of an append that holds one batch and no marker.
NO_MARKERS: list[Marker | None] = [None]

# Reading an attribute of an enum class takes ten times as long as reading a global.
REPLICATION = BatchOrigin.REPLICATION
CLIENT = BatchOrigin.CLIENT
COORDINATOR = BatchOrigin.COORDINATOR


class AppendResult(NamedTuple):
    """Where the records are; `needs_flush` asks for a flush before they are acknowledged."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 with CreateTime
    duplicate: bool
    needs_flush: bool


class LogAppender:
    """Appends to one log."""

    __slots__ = ("_local", "_refused_batches", "refusals")

    def __init__(self, local: LocalLog) -> None:
        self._local = local
        self.refusals = 0  # appends that a full disk has refused since the last one it took
        self._refused_batches = RefusedBatches()

    def append(
        self,
        buf: WritableBuffer,
        leader_epoch: int,
        now_ms: int,
        origin: BatchOrigin,
        inspection: Inspection | None,
        in_pieces: bool,
    ) -> AppendResult:
        """See `Log.append`."""
        local = self._local
        if local.log_failure or local.directory.failure or not local.is_loaded:
            local.ensure_loaded()
        rules = local.rules
        if origin is CLIENT:
            header = plain_batch(buf, rules, now_ms)
            if header is not None:
                return self._append_plain_batch(buf, header, leader_epoch, now_ms)
        first_offset = local.log_end_offset
        buf, batches = validate(buf, rules, origin, now_ms, first_offset, inspection)
        markers = NO_MARKERS
        if batches[0][1].producer_id >= 0 or len(batches) > 1:
            markers = _read_markers(buf, batches)
            duplicate = self._check_producers(batches, markers, origin)
            if duplicate is not None:
                return self._duplicate_result(duplicate, rules)
        if origin is REPLICATION:
            first_offset = batches[0][1].base_offset
            next_offset = batches[-1][1].next_offset
        else:
            next_offset = first_offset
            for pos, header in batches:
                stamp(buf, pos, next_offset, leader_epoch)
                next_offset += header.last_offset_delta + 1
        max_timestamp = max(header.max_timestamp for _, header in batches)
        last_offset = next_offset - 1
        try:
            segment, position = self._write(
                buf, max_timestamp, last_offset, now_ms, in_pieces=in_pieces
            )
        except DiskFull:
            if origin is CLIENT:
                self._refused_batches.add(batches)
            raise
        base_offset = first_offset
        for (pos, header), marker in zip(batches, markers, strict=True):
            epoch = leader_epoch
            if origin is REPLICATION:
                base_offset, epoch = header.base_offset, header.partition_leader_epoch
            self._record_batch(segment, position + pos, header, base_offset, epoch, marker)
            base_offset += header.last_offset_delta + 1
        append_time = now_ms if rules.log_append_time and origin is not REPLICATION else -1
        return self._append_result(first_offset, next_offset, append_time)

    def _append_plain_batch(
        self, buf: WritableBuffer, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        """Appends one client batch that needs no further validation: nearly every append."""
        if header.producer_id >= 0:
            duplicate = self._check_producers([(0, header)], NO_MARKERS, CLIENT)
            if duplicate is not None:
                return self._duplicate_result(duplicate, self._local.rules)
        first_offset = self._local.log_end_offset
        next_offset = first_offset + header.last_offset_delta + 1
        stamp(buf, 0, first_offset, leader_epoch)
        try:
            segment, position = self._write(buf, header.max_timestamp, next_offset - 1, now_ms)
        except DiskFull:
            self._refused_batches.add([(0, header)])
            raise
        self._record_batch(segment, position, header, first_offset, leader_epoch, None)
        return self._append_result(first_offset, next_offset, -1)

    def append_plain_records(
        self,
        payload: bytes,
        count: int,
        leader_epoch: int,
        now_ms: int,
        producer_id: int,
        producer_epoch: int,
    ) -> tuple[int, bool]:
        """See `Log.append_plain_records`."""
        local = self._local
        if local.log_failure or local.directory.failure or not local.is_loaded:
            local.ensure_loaded()
        first_offset = local.log_end_offset
        batch = seal_plain_batch(
            payload, count, now_ms, first_offset, leader_epoch, producer_id, producer_epoch
        )
        size = len(batch)
        rules = local.rules
        if size > rules.max_unvalidated_bytes or producer_id >= 0:
            result = self.append(bytearray(batch), leader_epoch, now_ms, COORDINATOR, None, False)
            return result.first_offset, result.needs_flush
        next_offset = first_offset + count
        items = local.segments.items
        segment = items[-1] if items else None
        try:
            # `Segment.should_roll`, inlined: this saves 60 ns of the 2.4 us of an append.
            if (
                segment is None
                or not 0 < segment.size <= rules.segment_bytes - size
                or not 0 <= now_ms - segment.first_timestamp_ms <= local.roll_after_ms
                or next_offset - segment.base_offset > MAX_RELATIVE_OFFSET
                or segment.index_entries >= rules.max_index_entries
            ):
                segment = self._segment_for(size, now_ms, next_offset - 1, now_ms)
            position = segment.write(batch)
        except (OSError, DiskFull) as error:
            raise self._write_error(error) from error
        recovery_point = local.durability.recovery_point
        if recovery_point >= first_offset:
            local.unflushed_since_ms = now_ms
        if self.refusals:
            self._clear_refusals()
        entries = local.epochs.entries
        if not entries or leader_epoch != entries[-1].epoch:
            local.epochs.assign(leader_epoch, first_offset)
        segment.index_batch(position, size, next_offset - 1, now_ms, rules.index_interval_bytes)
        local.log_end_offset = next_offset
        return first_offset, next_offset - recovery_point >= rules.flush_messages

    # --- writing --------------------------------------------------------------------------------

    def _write(
        self,
        buf: Buffer,
        max_timestamp: int,
        last_offset: int,
        now_ms: int,
        *,
        in_pieces: bool = False,
    ) -> tuple[Segment, int]:
        """Writes the bytes into the active segment; on an error the log is unchanged."""
        local = self._local
        try:
            segment = self._segment_for(len(buf), max_timestamp, last_offset, now_ms)
            position = segment.write(buf, in_pieces=in_pieces)
        except (OSError, DiskFull) as error:
            raise self._write_error(error) from error
        if self.refusals:
            self._clear_refusals()
        if local.durability.recovery_point >= local.log_end_offset:
            local.unflushed_since_ms = now_ms
        return segment, position

    def _segment_for(self, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> Segment:
        """The active segment, after a roll if these batches do not belong in it."""
        local = self._local
        items = local.segments.items
        if not items:
            return local.roll()
        active = items[-1]
        rules = local.rules
        if active.should_roll(
            size,
            max_timestamp,
            last_offset,
            now_ms,
            rules.segment_bytes,
            local.roll_after_ms,
            rules.max_index_entries,
        ):
            active = local.roll()
        if last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
            raise UnexpectedOffset(
                f"offset {last_offset} is too far from {active.base_offset} for one segment"
            )
        return active

    def _write_error(self, error: OSError | DiskFull) -> StorageError:
        """The error for the caller; a full disk is counted."""
        local = self._local
        fault: StorageError
        if isinstance(error, DiskFull):  # no room for a new segment
            fault = error
        else:
            fault = local.directory.fault(error, f"appending to {local.name}")
        if isinstance(fault, DiskFull):
            self.refusals += 1
            local.directory.full.add(local.name)
            local.directory.refused_appends += 1
        return fault

    def _clear_refusals(self) -> None:
        self.refusals = 0
        self._local.directory.full.discard(self._local.name)

    def _record_batch(
        self,
        segment: Segment,
        position: int,
        header: BatchHeader,
        base_offset: int,
        epoch: int,
        marker: Marker | None,
    ) -> None:
        """Updates the log's state for a batch that is in the file. This cannot fail."""
        local = self._local
        if epoch != local.epochs.latest:
            local.epochs.assign(epoch, base_offset)
        next_offset = base_offset + header.last_offset_delta + 1
        segment.index_batch(
            position,
            header.batch_length + LOG_OVERHEAD,
            next_offset - 1,
            header.max_timestamp,
            local.rules.index_interval_bytes,
        )
        if header.producer_id >= 0 and (marker is not None or not header.is_control):
            producers = local.producers
            completed = producers.apply(header, base_offset, marker)
            if completed is not None and completed.aborted:
                segment.txns.append(producers.aborted(completed))
            if self._refused_batches.by_producer:
                self._refused_batches.by_producer.pop(header.producer_id, None)
        local.log_end_offset = next_offset

    def _append_result(self, first_offset: int, next_offset: int, append_time: int) -> AppendResult:
        local = self._local
        unflushed = next_offset - local.durability.recovery_point
        needs_flush = unflushed >= local.rules.flush_messages
        return AppendResult(first_offset, next_offset - 1, append_time, False, needs_flush)

    # --- producers ------------------------------------------------------------------------------

    def _check_producers(
        self, batches: Batches, markers: list[Marker | None], origin: BatchOrigin
    ) -> BatchMetadata | None:
        """Raises if a producer may not write this; returns the batch that a retry repeats."""
        producers, log_end = self._local.producers, self._local.log_end_offset
        if len(batches) == 1 and origin is CLIENT:
            header = batches[0][1]
            known = producers.by_id.get(header.producer_id)
            if known is not None and known.continues(header):
                return None
        staged: dict[int, ProducerEntry] = {}
        for (_, header), marker in zip(batches, markers, strict=True):
            if header.producer_id < 0:
                continue
            entry = staged.get(header.producer_id) or producers.entry(header.producer_id)
            if marker is not None:
                entry.check_marker(header, marker, origin)
            elif not header.is_control:
                if origin is CLIENT:
                    duplicate = entry.duplicate_of(header)
                    if duplicate is not None:
                        return duplicate
                    if self._refused_batches.by_producer:
                        self._refused_batches.check(header, self._local.name)
                entry.check(header, origin)
            if len(batches) > 1 and origin is not REPLICATION:
                entry = staged[header.producer_id] = entry.copy()
                if marker is None:
                    entry.apply(header, log_end)
                else:
                    entry.apply_marker(header, log_end, marker)
        return None

    def _duplicate_result(self, trace: BatchMetadata, rules: AppendRules) -> AppendResult:
        """A retry gets the answer of the first attempt, and waits for the same flush."""
        needs_flush = (
            self._local.config.flush_messages != MAX_LONG
            and trace.last_offset >= self._local.durability.recovery_point
        )
        append_time = trace.timestamp if rules.log_append_time else -1
        return AppendResult(trace.first_offset, trace.last_offset, append_time, True, needs_flush)


def _read_markers(buf: WritableBuffer, batches: Batches) -> list[Marker | None]:
    """The transaction marker in each batch, None for a data batch."""
    if len(batches) == 1 and not batches[0][1].is_control:
        return NO_MARKERS
    view = memoryview(buf)
    return [
        read_marker(view[pos : pos + header.size]) if header.is_control else None
        for pos, header in batches
    ]
