"""One partition of one share group: a window of records in delivery.

The window starts at the first record that is not finished and ends after the last one that was ever
delivered. Each offset in it is available, acquired by one member until a deadline, acknowledged,
archiving or archived. Guarantees:

- At most one member holds a record. An acknowledgement takes effect when it is stored. Until then
  no member can acquire the record; if storing fails, the same member holds it again.

- A record is delivered until it is accepted, rejected or has used up its deliveries.

- No new record enters the window while it is as wide as the rules allow.

Callers must store every `StateWrite` that they get, in order, and report `committed` or `failed`.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush

from headrace.protocol.errors import ErrorCode
from headrace.share.batch_size import BatchLimit, batch_groups, throttled_size
from headrace.share.errors import AcknowledgeError
from headrace.share.in_flight import InFlightRecords, in_flight_records
from headrace.share.offset_ranges import add_run, merged_state_batches, subtract_range
from headrace.share.offset_spans import Span, Spans
from headrace.share.record_state import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    RecordState,
    RejectedRecord,
    StateBatch,
    next_state,
)
from headrace.share.share_rules import ShareRules
from headrace.share.state_write import StateWrite


class SharePartition:
    """The window of one share partition."""

    def __init__(
        self, rules: Callable[[], ShareRules], start_offset: int, batches: Iterable[StateBatch] = ()
    ) -> None:
        """`batches` is the stored state; other offsets are not acknowledged yet."""
        self._rules = rules
        self._spans = Spans()
        self._locks: list[tuple[int, int, int]] = []  # a heap of (deadline, first, last)
        self.start_offset = start_offset
        self.end_offset = start_offset  # one after the window's last
        self._may_have_free = False
        self._load(batches)

    def _load(self, batches: Iterable[StateBatch]) -> None:
        limit = self._rules().max_deliveries
        for batch in sorted(batches):
            first = max(batch.first, self.end_offset)
            if batch.last < first:
                continue
            self._extend(first - 1, RecordState.AVAILABLE, 0)
            state = batch.state
            if state is RecordState.ACQUIRED:
                state = RecordState.AVAILABLE
            self._extend(batch.last, state, batch.deliveries, rejected=batch.deliveries < limit)
        self._may_have_free = True
        self._advance_start_offset()

    def _extend(
        self, last: int, state: RecordState, deliveries: int, *, rejected: bool = False
    ) -> None:
        """Widens the window up to `last`."""
        width = last - self.end_offset + 1
        if width > 0:
            span = Span(self.end_offset, last, state, deliveries, width, rejected=rejected)
            self._spans.append(span)
            self.end_offset = last + 1

    # --- questions ------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """The width of the window."""
        return self.end_offset - self.start_offset

    @property
    def complete_count(self) -> int:
        """Finished records that unfinished ones before them keep in the window."""
        return sum(span.size for span in self._spans if _ends_in(span).is_final)

    def next_fetch_offset(self) -> int:
        """The offset to fetch next: the first available record, or the window's end."""
        if self._may_have_free:
            for span in self._spans:
                if span.is_free:
                    return span.first
            self._may_have_free = False
        return self.end_offset

    def can_acquire(self) -> bool:
        """Whether a member could acquire a record, provided that the log has one."""
        return (
            self.next_fetch_offset() < self.end_offset or self.in_flight < self._rules().max_locks
        )

    def states(self) -> list[StateBatch]:
        """The window as runs."""
        return [StateBatch(s.first, s.last, s.state, s.deliveries) for s in self._spans]

    @property
    def acquired_count(self) -> int:
        """The records that members hold."""
        return sum(span.size for span in self._spans if span.state is RecordState.ACQUIRED)

    def in_flight_records(self, now_ms: int, max_locks: int) -> InFlightRecords:
        """The window's totals, and its first locks."""
        return in_flight_records(self._spans, now_ms, max_locks)

    def holder(self, offset: int) -> str:
        """The member that holds the record, "" if none."""
        for span in self._spans.overlapping(offset, offset):
            return span.member if span.state is RecordState.ACQUIRED else ""
        return ""

    # --- acquiring ------------------------------------------------------------------------------

    def acquire(
        self,
        member: str,
        fetch_offset: int,
        batches: Sequence[tuple[int, int]],
        take: BatchLimit,
        now_ms: int,
    ) -> list[Acquired]:
        """Acquires records of the log's `batches` ((first, last) each) for `member`.

        They were read at `fetch_offset`. Available records of the window come first, then new ones.
        Unless `take.strict`, whole batches are acquired, so there may be more than
        `take.max_records`.
        """
        if not batches or take.max_records <= 0 or batches[-1][1] < self.start_offset:
            return []
        self._archive_missing(fetch_offset, batches[0][0])
        rules = self._rules()
        acquired, throttled = self._acquire_free(member, batches, take, rules, now_ms)
        taken = sum(a.last - a.first + 1 for a in acquired)
        room = min(take.max_records - taken, rules.max_locks - self.in_flight)
        if room > 0 and not throttled and batches[-1][1] >= self.end_offset:
            acquired += self._acquire_new(member, batches, take, room, rules, now_ms)
        return acquired

    def _archive_missing(self, fetch_offset: int, base_offset: int) -> None:
        """The log has no records from `fetch_offset` to `base_offset`: compaction removed them."""
        if fetch_offset >= base_offset:
            return
        for span in self._spans.cut(fetch_offset, base_offset - 1):
            if span.is_free:
                span.state = RecordState.ARCHIVED
        self._advance_start_offset()

    def _acquire_free(
        self,
        member: str,
        batches: Sequence[tuple[int, int]],
        take: BatchLimit,
        rules: ShareRules,
        now_ms: int,
    ) -> tuple[list[Acquired], bool]:
        """Acquires from the window; True if the delivery must stop there because it is
        throttled."""
        if not self._may_have_free:
            return [], False
        acquired: list[Acquired] = []
        taken = 0
        first, last = batches[0][0], min(batches[-1][1], self.end_offset - 1)
        for span in self._spans.overlapping(first, last):
            if taken >= take.max_records:
                break
            if not span.is_free:
                continue
            start, stop = max(span.first, first), min(span.last, last)
            if take.strict:
                stop = min(stop, start + take.max_records - taken - 1)
            allowed = throttled_size(span.deliveries, span.width, rules.max_deliveries)
            if allowed is not None:
                if acquired:
                    return acquired, True
                stop = min(stop, start + allowed - 1)
            for part in self._spans.cut(start, stop):
                part.deliveries += 1
                self._lock(part, member, now_ms + rules.lock_ms)
                add_run(acquired, part)
                taken += part.size
            if allowed is not None:
                return acquired, True
        return acquired, False

    def _acquire_new(
        self,
        member: str,
        batches: Sequence[tuple[int, int]],
        take: BatchLimit,
        room: int,
        rules: ShareRules,
        now_ms: int,
    ) -> list[Acquired]:
        base = batches[0][0]
        if base > self.end_offset:
            if self._spans:
                self._extend(base - 1, RecordState.ARCHIVED, 0)
            else:
                self.start_offset = self.end_offset = base
        groups = batch_groups(self.end_offset, batches, room, take)
        for _, last in groups:
            span = Span(self.end_offset, last, RecordState.ACQUIRED, 1, last - self.end_offset + 1)
            self._spans.append(span)
            self.end_offset = last + 1
            self._lock(span, member, now_ms + rules.lock_ms)
        return [Acquired(first, last, 1) for first, last in groups]

    def _lock(self, span: Span, member: str, deadline_ms: int) -> None:
        span.state = RecordState.ACQUIRED
        span.member = member
        span.deadline_ms = deadline_ms
        heappush(self._locks, (deadline_ms, span.first, span.last))

    def archive_aborted(
        self, member: str, acquired: list[Acquired], aborted: Iterable[tuple[int, int]]
    ) -> list[Acquired]:
        """`acquired` without the records of aborted transactions.

        Nothing is stored: the next fetch of these records checks them again.
        """
        for first, last in aborted:
            for span in self._spans.cut(first, last):
                if span.state is RecordState.ACQUIRED and span.member == member and not span.write:
                    span.state = RecordState.ARCHIVED
                    span.member = ""
            acquired = [
                Acquired(start, stop, part.deliveries)
                for part in acquired
                for start, stop in subtract_range(part.first, part.last, first, last)
            ]
        self._advance_start_offset()
        return acquired

    # --- acknowledging --------------------------------------------------------------------------

    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: int
    ) -> StateWrite | None:
        """Accepts all of them or raises; None if there is nothing to store."""
        rules = self._rules()
        for acknowledgement in acknowledgements:
            self._check(member, acknowledgement, rules)
        changed: list[Span] = []
        for first, last, kind in acknowledgements:
            if last < self.start_offset:
                continue
            spans = self._spans.cut(max(first, self.start_offset), last)
            if kind is AcknowledgeType.RENEW:
                for span in spans:
                    self._lock(span, member, now_ms + rules.lock_ms)
                continue
            for span in spans:
                span.rejected = kind is AcknowledgeType.REJECT
                span.next_state = next_state(span.deliveries, kind, rules)
            changed += spans
        return self._write(changed)

    def _check(self, member: str, acknowledgement: Acknowledgement, rules: ShareRules) -> None:
        first, last, kind = acknowledgement
        if last < self.start_offset:
            return  # retention has already deleted it
        if last >= self.end_offset:
            raise AcknowledgeError(
                ErrorCode.INVALID_RECORD_STATE if not self._spans else ErrorCode.INVALID_REQUEST,
                f"Offsets {first} to {last} are not all acquired.",
            )
        if kind is AcknowledgeType.RENEW and not rules.renew_enabled:
            raise AcknowledgeError(
                ErrorCode.INVALID_RECORD_STATE,
                "Renewing acquisition locks is not enabled for the group.",
            )
        for span in self._spans.overlapping(max(first, self.start_offset), last):
            if span.state is not RecordState.ACQUIRED or span.write is not None:
                reason = f"Offset {max(first, span.first)} is not acquired."
            elif span.member != member:
                reason = f"Offset {max(first, span.first)} is acquired by another member."
            else:
                continue
            raise AcknowledgeError(ErrorCode.INVALID_RECORD_STATE, reason)

    def release(self, member: str) -> StateWrite | None:
        """Releases every record that `member` holds, because the member has left."""
        rules = self._rules()
        held = [
            span
            for span in self._spans
            if span.state is RecordState.ACQUIRED and span.member == member and span.write is None
        ]
        for span in held:
            span.next_state = next_state(span.deliveries, AcknowledgeType.RELEASE, rules)
        return self._write(held)

    # --- locks ----------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """The time at which the next lock expires; None without a lock."""
        locks = self._locks
        while locks and not self._is_locked(*locks[0]):
            heappop(locks)
        return locks[0][0] if locks else None

    def _is_locked(self, deadline_ms: int, first: int, last: int) -> bool:
        return any(
            _is_locked_until(span, deadline_ms) for span in self._spans.overlapping(first, last)
        )

    def expire(self, now_ms: int) -> StateWrite | None:
        """Releases records whose lock has expired.

        The release takes effect at once, even if it cannot be stored: locks are not stored either.
        """
        rules = self._rules()
        ended: dict[int, Span] = {}  # each once: a write that failed puts a second lock in the heap
        while self._locks and self._locks[0][0] <= now_ms:
            deadline_ms, first, last = heappop(self._locks)
            for span in self._spans.overlapping(first, last):
                if _is_locked_until(span, deadline_ms):
                    span.next_state = next_state(span.deliveries, AcknowledgeType.RELEASE, rules)
                    ended[span.first] = span
        expired = list(ended.values())
        write = self._write(expired)
        for span in expired:
            self._apply_next_state(span)
        self._advance_start_offset()
        return write

    # --- storing --------------------------------------------------------------------------------

    def _write(self, changed: list[Span]) -> StateWrite | None:
        """Marks the runs as being stored; their state changes when the write is committed."""
        if not changed:
            return None
        changed.sort(key=lambda span: span.first)
        finished = sum(span.size for span in changed if span.next_state.is_final)
        count = self.complete_count + finished
        write = StateWrite(self.start_offset, count, merged_state_batches(changed))
        for span in changed:
            span.write = write
        return write

    def committed(self, write: StateWrite) -> None:
        """Called when `write` is stored: its runs get their new state."""
        for span in self._written_by(write):
            self._apply_next_state(span)
        self._advance_start_offset()
        self._spans.merge()

    def failed(self, write: StateWrite) -> None:
        """Called when `write` failed: its members hold the records again until their locks
        expire."""
        for span in self._written_by(write):
            span.write = None
            if span.state is RecordState.ACQUIRED:
                heappush(self._locks, (span.deadline_ms, span.first, span.last))

    def _written_by(self, write: StateWrite) -> list[Span]:
        return [
            span
            for batch in write.batches
            for span in self._spans.overlapping(batch.first, batch.last)
            if span.write is write
        ]

    def _apply_next_state(self, span: Span) -> None:
        span.write = None
        span.state = span.next_state
        span.member = ""
        if span.state is RecordState.AVAILABLE:
            self._may_have_free = True

    def _advance_start_offset(self) -> None:
        """Advances the start past finished records."""
        start = self._spans.drop_final()
        if start is not None:
            self.start_offset = start

    def move_start(self, log_start_offset: int) -> None:
        """Called when the log has deleted all records below that offset."""
        if log_start_offset <= self.start_offset:
            return
        self._spans.drop_before(log_start_offset)
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)
        self._advance_start_offset()

    # --- dead letters ---------------------------------------------------------------------------

    def take_dead_letters(self) -> list[RejectedRecord]:
        """The records to copy to the dead-letter topic; each record is returned once."""
        waiting = [
            span
            for span in self._spans
            if span.state is RecordState.ARCHIVING and not span.handed_over
        ]
        for span in waiting:
            span.handed_over = True
        return [RejectedRecord(s.first, s.last, s.deliveries, s.rejected) for s in waiting]

    def copied(self, first: int, last: int) -> StateWrite | None:
        """The dead letters from `first` to `last` are written: the records may be archived.

        If storing this fails, the caller calls it again.
        """
        spans = [
            span
            for span in self._spans.cut(max(first, self.start_offset), last)
            if span.state is RecordState.ARCHIVING and span.write is None
        ]
        for span in spans:
            span.next_state = RecordState.ARCHIVED
        return self._write(spans)


def _ends_in(span: Span) -> RecordState:
    return span.state if span.write is None else span.next_state


def _is_locked_until(span: Span, deadline_ms: int) -> bool:
    return (
        span.state is RecordState.ACQUIRED
        and span.write is None
        and span.deadline_ms == deadline_ms
    )
