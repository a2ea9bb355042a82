"""One partition's log: appending and reading.

Guarantees: offsets only grow and are never given twice; an append is all or nothing; what a flush
covered survives power loss; the cost of appending and of reading the end does not depend on the
log's length.

Threads: everything belongs to the owner's thread (the broker's loop) except `flush`, which may run
beside it, also while the owner appends, rolls and reads. A log opens its files on first use.
"""

from typing import NamedTuple

from headrace.records.batch import (
    LOG_OVERHEAD,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    BatchHeader,
    stamp,
)
from headrace.records.buffer import Buffer, WritableBuffer
from headrace.records.plain_batch import seal_plain
from headrace.records.record_validation import Inspection
from headrace.storage.errors import (
    DiskFull,
    LogCorrupt,
    OffsetOutOfRange,
    StorageError,
    UnexpectedOffset,
)
from headrace.storage.log.log_by_time import LogByTime
from headrace.storage.recovery.segment_scan import read_marker
from headrace.storage.segment.aborted_txn import AbortedTxn
from headrace.storage.segment.batch_check import BadBatch, Checked, check_batches
from headrace.storage.segment.segment import MAX_RELATIVE_OFFSET, Segment
from headrace.storage.state.append_validation import AppendRules, Batches, plain_batch, validate
from headrace.storage.state.damage import Checks, Damage, bounds_in, whole_again
from headrace.storage.state.log_config import MAX_LONG
from headrace.storage.state.producers import BatchOrigin, BatchTrace, Marker, ProducerEntry

# The markers of an append that holds one batch and no marker.
NO_MARKERS: list[Marker | None] = [None]
# Producers whose refused batches one log waits for; more are not remembered.
MAX_AWAITED = 10_000


# An attribute of an enum class costs ten times a global's look-up; these are read per append.
REPLICATION = BatchOrigin.REPLICATION
CLIENT = BatchOrigin.CLIENT
COORDINATOR = BatchOrigin.COORDINATOR


class AppendResult(NamedTuple):
    """Where the records are now; `needs_flush` asks for a flush before anyone is told."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 with CreateTime
    duplicate: bool
    needs_flush: bool


class ReadResult(NamedTuple):
    """Whole batches, but perhaps a part of one at the end; empty at the end of the log."""

    data: bytes
    first_offset: int


class Log(LogByTime):
    """The records of one partition, from `log_start_offset` up to `log_end_offset`."""

    __slots__ = ()

    # --- appending ------------------------------------------------------------------------------

    def append(
        self,
        buf: WritableBuffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: BatchOrigin = BatchOrigin.CLIENT,
        looked: Inspection | None = None,
        gently: bool = False,
    ) -> AppendResult:
        """Appends whole batches, stamping them in place; on any error nothing is appended.

        `gently` if nobody waits for them: other processes go first.

        Raises `LongLook` if a client's batch must be looked into for long: `looked` is the outcome
        of that look, when it comes again.
        """
        if self._failure or self.directory.failure or not self._loaded:
            self._ready()
        rules = self._rules
        if origin is CLIENT:
            header = plain_batch(buf, rules, now_ms)
            if header is not None:
                return self._append_plain(buf, header, leader_epoch, now_ms)
        first_offset = self.log_end_offset
        buf, batches = validate(buf, rules, origin, now_ms, first_offset, looked)
        markers = NO_MARKERS
        if batches[0][1].producer_id >= 0 or len(batches) > 1:
            markers = _markers(buf, batches)
            duplicate = self._check_producers(batches, markers, origin)
            if duplicate is not None:
                return self._duplicate(duplicate, rules)
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
            segment, position = self._write(buf, max_timestamp, last_offset, now_ms, gently=gently)
        except DiskFull:
            if origin is CLIENT:
                self._await_again(batches)
            raise
        base_offset = first_offset
        for (pos, header), marker in zip(batches, markers, strict=True):
            epoch = leader_epoch
            if origin is REPLICATION:
                base_offset, epoch = header.base_offset, header.partition_leader_epoch
            self._take_in(segment, position + pos, header, base_offset, epoch, marker)
            base_offset += header.last_offset_delta + 1
        append_time = now_ms if rules.log_append_time and origin is not REPLICATION else -1
        return self._appended(first_offset, next_offset, append_time)

    def append_own(
        self,
        payload: bytes,
        count: int,
        leader_epoch: int,
        now_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> tuple[int, bool]:
        """Appends `count` records of this broker's own, as `plain_records` writes them, as one
        batch; only its size is in question. Returns the first offset and whether a flush must
        come before anyone is told."""
        if self._failure or self.directory.failure or not self._loaded:
            self._ready()
        first_offset = self.log_end_offset
        batch = seal_plain(
            payload, count, now_ms, first_offset, leader_epoch, producer_id, producer_epoch
        )
        size = len(batch)
        rules = self._rules
        if size > rules.max_own_bytes or producer_id >= 0:
            result = self.append(
                bytearray(batch), leader_epoch=leader_epoch, now_ms=now_ms, origin=COORDINATOR
            )
            return result.first_offset, result.needs_flush
        next_offset = first_offset + count
        items = self._segments.items
        segment = items[-1] if items else None
        try:
            # What `_segment_for` asks, in place: coordinators append much and little at a time.
            if (
                segment is None
                or not 0 < segment.size <= rules.segment_bytes - size
                or not 0 <= now_ms - segment.since_ms <= self._roll_after_ms
                or next_offset - segment.base_offset > MAX_RELATIVE_OFFSET
                or segment.index_entries >= rules.max_index_entries
            ):
                segment = self._segment_for(size, now_ms, next_offset - 1, now_ms)
            position = segment.write(batch)
        except (OSError, DiskFull) as error:
            raise self._not_written(error) from error
        recovery_point = self._durability.recovery_point
        if recovery_point >= first_offset:
            self._unflushed_since_ms = now_ms
        if self.refusals:
            self._found_room()
        entries = self._epochs.entries
        if not entries or leader_epoch != entries[-1].epoch:
            self._epochs.assign(leader_epoch, first_offset)
        segment.note(position, size, next_offset - 1, now_ms, rules.index_interval_bytes)
        self.log_end_offset = next_offset
        return first_offset, next_offset - recovery_point >= rules.flush_messages

    def _append_plain(
        self, buf: WritableBuffer, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        """One batch that a client sent, about which no rule leaves a doubt: nearly every append."""
        if header.producer_id >= 0:
            duplicate = self._check_producers([(0, header)], NO_MARKERS, CLIENT)
            if duplicate is not None:
                return self._duplicate(duplicate, self._rules)
        first_offset = self.log_end_offset
        next_offset = first_offset + header.last_offset_delta + 1
        stamp(buf, 0, first_offset, leader_epoch)
        try:
            segment, position = self._write(buf, header.max_timestamp, next_offset - 1, now_ms)
        except DiskFull:
            self._await_again([(0, header)])
            raise
        self._take_in(segment, position, header, first_offset, leader_epoch, None)
        return self._appended(first_offset, next_offset, -1)

    def _write(
        self,
        buf: Buffer,
        max_timestamp: int,
        last_offset: int,
        now_ms: int,
        *,
        gently: bool = False,
    ) -> tuple[Segment, int]:
        """Puts the bytes into the file; on an error the log is as it was."""
        try:
            segment = self._segment_for(len(buf), max_timestamp, last_offset, now_ms)
            position = segment.write(buf, gently=gently)
        except (OSError, DiskFull) as error:
            raise self._not_written(error) from error
        if self.refusals:
            self._found_room()
        if self._durability.recovery_point >= self.log_end_offset:
            self._unflushed_since_ms = now_ms
        return segment, position

    def _not_written(self, error: OSError | DiskFull) -> StorageError:
        fault: StorageError
        if isinstance(error, DiskFull):  # a new segment found no room
            fault = error
        else:
            fault = self.directory.fault(error, f"appending to {self.name}")
        if isinstance(fault, DiskFull):
            self.refusals += 1
            self.directory.full.add(self.name)
        return fault

    def _found_room(self) -> None:
        self.refusals = 0
        self.directory.full.discard(self.name)

    def _await_again(self, batches: Batches) -> None:
        """These found no room, and are to come again before what their producers sent next."""
        for _, header in batches:
            if header.producer_id >= 0 and header.producer_id not in self._awaited:
                if len(self._awaited) >= MAX_AWAITED:
                    del self._awaited[next(iter(self._awaited))]
                awaited = (header.producer_epoch, header.base_sequence)
                self._awaited[header.producer_id] = awaited

    def _take_in(
        self,
        segment: Segment,
        position: int,
        header: BatchHeader,
        base_offset: int,
        epoch: int,
        marker: Marker | None,
    ) -> None:
        """The bytes are in the file: everything else follows, and none of it can fail."""
        if epoch != self._epochs.latest:
            self._epochs.assign(epoch, base_offset)
        next_offset = base_offset + header.last_offset_delta + 1
        segment.note(
            position,
            header.batch_length + LOG_OVERHEAD,
            next_offset - 1,
            header.max_timestamp,
            self._rules.index_interval_bytes,
        )
        if header.producer_id >= 0 and (marker is not None or not header.is_control):
            completed = self._producers.apply(header, base_offset, marker)
            if completed is not None and completed.aborted:
                segment.txns.append(self._producers.aborted(completed))
            if self._awaited:
                self._awaited.pop(header.producer_id, None)
        self.log_end_offset = next_offset

    def _appended(self, first_offset: int, next_offset: int, append_time: int) -> AppendResult:
        flush_messages = self._rules.flush_messages
        needs_flush = next_offset - self._durability.recovery_point >= flush_messages
        return AppendResult(first_offset, next_offset - 1, append_time, False, needs_flush)

    def _check_producers(
        self, batches: Batches, markers: list[Marker | None], origin: BatchOrigin
    ) -> BatchTrace | None:
        """Raises if a producer may not write this; returns the batch it repeats, if it does."""
        if len(batches) == 1 and origin is CLIENT:
            header = batches[0][1]
            known = self._producers.by_id.get(header.producer_id)
            if known is not None and known.continues(header):
                return None
        staged: dict[int, ProducerEntry] = {}
        for (_, header), marker in zip(batches, markers, strict=True):
            if header.producer_id < 0:
                continue
            entry = staged.get(header.producer_id) or self._producers.entry(header.producer_id)
            if marker is not None:
                entry.check_marker(header, marker, origin)
            elif not header.is_control:
                if origin is BatchOrigin.CLIENT:
                    duplicate = entry.duplicate_of(header)
                    if duplicate is not None:
                        return duplicate
                if self._awaited and origin is CLIENT:
                    self._check_awaited(header)
                entry.check(header, origin)
            if len(batches) > 1 and origin is not BatchOrigin.REPLICATION:
                entry = staged[header.producer_id] = entry.copy()
                if marker is None:
                    entry.apply(header, self.log_end_offset)
                else:
                    entry.apply_marker(header, self.log_end_offset, marker)
        return None

    def _check_awaited(self, header: BatchHeader) -> None:
        """Raises if an earlier batch of the producer found no room, and did not come again.

        Told of a gap, producers take a new epoch, and send again what they have in other
        partitions; and of one that was not known before, the later batch would be taken first.
        They shall wait instead, also if there is room for this one.
        """
        awaited = self._awaited.get(header.producer_id)
        if awaited is None or awaited[0] != header.producer_epoch:
            return
        if awaited[1] != header.base_sequence:
            raise DiskFull(
                f"appending to {self.name} failed before: sequence {awaited[1]} of producer "
                f"{header.producer_id} found no room, and is to come before {header.base_sequence}"
            )

    def _duplicate(self, trace: BatchTrace, rules: AppendRules) -> AppendResult:
        """A retry: the answer of the first time, and the wait for the same flush."""
        needs_flush = (
            self.config.flush_messages != MAX_LONG
            and trace.last_offset >= self._durability.recovery_point
        )
        append_time = trace.timestamp if rules.log_append_time else -1
        return AppendResult(trace.first_offset, trace.last_offset, append_time, True, needs_flush)

    def _segment_for(self, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> Segment:
        """The active segment, after a roll if these batches do not belong in it."""
        items = self._segments.items
        if not items:
            return self.roll()
        active = items[-1]
        rules = self._rules
        if active.size and (
            active.size + size > rules.segment_bytes
            or last_offset - active.base_offset > MAX_RELATIVE_OFFSET
            or active.waited_ms(max_timestamp, now_ms) > self._roll_after_ms
            or active.index_entries >= rules.max_index_entries
        ):
            active = self.roll()
        if last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
            raise UnexpectedOffset(
                f"offset {last_offset} is too far from {active.base_offset} for one segment"
            )
        return active

    # --- reading --------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        max_offset: int | None = None,
        min_one_message: bool = True,
        checks: Checks | None = None,
    ) -> ReadResult:
        """Bytes from the batch that holds `offset` on, none of them at or past `max_offset`.

        At least one batch is returned if there is one, even if it is larger than `max_bytes`,
        unless `min_one_message` is off (KIP-74).

        What lies in closed segments, or was there when the log was opened, is checked: at most as
        many batches as `checks` allows. Raises `RecordsDamaged` if the first of them does not hold;
        what comes before a later one is returned.
        """
        if self._failure or self.directory.failure:
            self._check_usable()
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise OffsetOutOfRange(self.name, offset, self.log_start_offset, end)
        limit = end if max_offset is None or max_offset > end else max_offset
        if offset >= limit:
            return ReadResult(b"", offset)
        if not self._loaded:
            self.load()
        try:
            return self._read(offset, max_bytes, limit, min_one_message, checks or Checks())
        except OSError as error:
            raise self.directory.fault(error, f"reading {self.name}") from error

    def _read(
        self, offset: int, max_bytes: int, limit: int, min_one_message: bool, checks: Checks
    ) -> ReadResult:
        segments = self._segments
        items = segments.items
        for slot in range(segments.slot_of(offset), len(items)):
            segment = items[slot]
            # What was appended last, and in this life, was checked then.
            doubted, upper = segment.own_from, self.log_end_offset
            if slot + 1 < len(items):
                doubted, upper = segment.size, items[slot + 1].base_offset
            try:
                found = segment.find(offset)
                first = offset
                if doubted and (found is None or found[1] != offset):
                    to = min(found[0], doubted) if found else doubted
                    first = self._check_before(segment, offset, to)
                if found is None:
                    continue  # compaction has left a gap at the segment's end
                position, base_offset, batch_size = found
                if self._damages.holes:
                    self._check_holes(offset, base_offset)
                end = segment.size
                if limit < upper:
                    cut = segment.find(limit)
                    end = cut[0] if cut else end
                available = end - position
                if available <= 0:
                    break
                size = min(max_bytes, available)
                if size < batch_size:
                    if not min_one_message:
                        break
                    size = batch_size
                data = segment.read(position, size)
            except (LogCorrupt, BadBatch, FileNotFoundError) as error:
                raise self._damaged(self._locate(segment, offset, error)) from error
            if position < doubted:
                bounds = bounds_in(segment, first, upper, self._epochs.span)
                most = max(checks.left, 1 if min_one_message else 0)
                checked = check_batches(data, position, bounds, most=most, until=doubted - position)
                checks.left = max(0, checks.left - checked.batches)
                if checked.size < len(data):
                    data = self._held(segment, data, checked, upper)
                    checks.cut = True
            return ReadResult(data, base_offset)
        return ReadResult(b"", offset)

    def _held(self, segment: Segment, data: bytes, checked: Checked, limit: int) -> bytes:
        """As much of what was read as holds; raises if that is nothing."""
        if checked.bad is not None:
            at = checked.bad.position
            after = whole_again(segment, at, limit)
            error = self._damaged(
                Damage(segment.file.path, at, checked.next, after, checked.bad.reason)
            )
            if not checked.size:
                raise error
        return data[: checked.size]

    @property
    def size_bytes(self) -> int:
        self._ready()
        return self._segments.size_bytes

    # --- transactions ---------------------------------------------------------------------------

    @property
    def producers(self) -> dict[int, ProducerEntry]:
        """The producers that the log remembers, by id."""
        self._ready()
        return self._producers.by_id

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest open transaction begins."""
        return self._producers.first_ongoing_offset

    @property
    def last_stable_offset(self) -> int:
        """Below it no transaction is open."""
        first = self._producers.first_ongoing_offset
        return self.log_end_offset if first is None else first

    def stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is decided, with a marker below the high watermark."""
        return self._producers.stable_offset(high_watermark)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTxn]:
        """The aborted transactions with records in [from_offset, to_offset)."""
        self._ready()
        aborted = []
        for segment in self._segments.items[self._segments.slot_of(from_offset) :]:
            for txn in segment.txns.entries:
                if txn.last_offset >= from_offset and txn.first_offset < to_offset:
                    aborted.append(txn)
                if txn.last_stable_offset >= to_offset:
                    return aborted
        return aborted

    def has_aborted_transactions(self, from_offset: int) -> bool:
        """Whether any transaction was aborted in the segment of `from_offset` or a later one."""
        self._ready()
        segments = self._segments
        return any(
            segment.txns.entries for segment in segments.items[segments.slot_of(from_offset) :]
        )

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers that have been silent for so long; returns how many."""
        return self._producers.expire(now_ms, expiration_ms)

    # --- looking up -----------------------------------------------------------------------------

    @property
    def latest_epoch(self) -> int:
        self._ready()
        return self._epochs.latest

    def begin_epoch(self, epoch: int) -> None:
        """A new leader writes from the log's end on, also before its first record is there."""
        self._ready()
        self._epochs.assign(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote `offset`, -1 if unknown."""
        self._ready()
        return self._epochs.at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not after `epoch`, and where it ended; (-1, -1) if unknown."""
        self._ready()
        return self._epochs.end_offset(epoch, self.log_end_offset)

    def shared_end(self, other: "Log") -> int:
        """Up to where both logs hold the same records, by their leader epochs."""
        self._ready()
        other._ready()
        end = min(self.log_end_offset, other.log_end_offset)
        return self._epochs.shared_end(other._epochs, end)


def _markers(buf: WritableBuffer, batches: Batches) -> list[Marker | None]:
    """What each batch says about the end of a transaction."""
    if len(batches) == 1 and not batches[0][1].is_control:
        return NO_MARKERS
    view = memoryview(buf)
    return [
        read_marker(view[pos : pos + header.size]) if header.is_control else None
        for pos, header in batches
    ]
