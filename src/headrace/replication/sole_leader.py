"""A partition that this broker leads without followers.

Guarantees: the high watermark only grows, never passes the log's end, and never passes a record
that `flush.messages` requires to be flushed before that flush is complete. The callback of a commit
is called once: when the records are committed, or when this leader cannot commit them.
"""

from bisect import insort
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

from headrace.protocol.errors import ErrorCode
from headrace.records.batch_header import (
    HEADER_SIZE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    unpack_header,
)
from headrace.records.record_validation import Inspection
from headrace.replication.errors import RoleEnded
from headrace.replication.replica import Replica, Waiter
from headrace.replication.tolerated_gaps import NEVER, ToleratedGaps
from headrace.storage.errors import OutOfOrderSequence
from headrace.storage.log.log import AppendResult, Log
from headrace.storage.state.producers import BatchOrigin

__all__ = ["Committed", "SoleLeader", "Waiter"]

Committed = Callable[[ErrorCode], None]
"""Called once, when the records are committed or this leader cannot commit them."""


class _CommitWait(NamedTuple):
    offset: int
    callback: Committed


_offset_of = attrgetter("offset")


class SoleLeader(Replica):
    """One partition's leader. Without other replicas, appended records are committed."""

    _commits_at_append = True

    __slots__ = (
        "_unflushed",
        "_waits",
        "enough_in_sync",
        "gaps",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        epoch: int,
        open_log: Callable[[Replica], Log],
    ) -> None:
        super().__init__(topic, topic_id, index, epoch, open_log)
        self._unflushed: list[tuple[int, int]] | None = None  # (end offset, bytes) to be flushed
        self._waits: list[_CommitWait] | None = None  # sorted by offset
        # Whether enough replicas are in sync to accept and commit records with acks=all.
        self.enough_in_sync = True
        self.gaps = ToleratedGaps()

    def is_excused(self, gap: OutOfOrderSequence, now: float) -> bool:
        """Whether the batch that is missing before this one may still arrive."""
        return gap.is_ahead and self.gaps.is_excused(
            gap.producer_id, now, is_new_here=self._is_new_to_this_leader(gap.producer_id)
        )

    def misses_start(self, batch: memoryview, now: float) -> bool:
        """Whether the batch would be its producer's first here, but is not the first it sent.

        If the log appended it first, the earlier batch would be refused as out of order.
        """
        if self.closed or now >= self.gaps.starts_doubted_until:
            self.gaps.starts_doubted_until = NEVER
            return False
        header = unpack_header(batch)
        return (
            header.base_sequence > 0
            and header.producer_id not in self.log.producers
            and self.gaps.is_excused(header.producer_id, now, is_new_here=True)
        )

    def _is_new_to_this_leader(self, producer_id: int) -> bool:
        """Whether only earlier leaders have appended batches of this producer."""
        return False

    def append(
        self,
        batches: memoryview,
        now_ms: int,
        origin: BatchOrigin = BatchOrigin.CLIENT,
        inspection: Inspection | None = None,
    ) -> AppendResult:
        """Appends whole batches; `needs_flush` in the result asks the caller to flush first."""
        if self.closed:
            raise self._role_ended()
        log = self._log or self.log
        result = log.append(
            batches, leader_epoch=self.epoch, now_ms=now_ms, origin=origin, inspection=inspection
        )
        self._record_append(log, len(batches), result.duplicate, result.needs_flush)
        traffic = self.traffic
        if traffic is not None and not result.duplicate:
            traffic.bytes_in += len(batches)
            traffic.messages_in += result.last_offset - result.first_offset + 1
        return result

    def append_plain_records(
        self,
        payload: bytes,
        count: int,
        now_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> int:
        """Appends `count` records of this broker's coordinator as one batch; returns the first
        offset."""
        if self.closed:
            raise self._role_ended()
        log = self._log or self.log
        first_offset, needs_flush = log.append_plain_records(
            payload, count, self.epoch, now_ms, producer_id, producer_epoch
        )
        if self._commits_at_append and not (needs_flush or self._unflushed or self._waiters):
            self.high_watermark = first_offset + count
        else:
            self._record_append(log, HEADER_SIZE + len(payload), False, needs_flush)
        traffic = self.traffic
        if traffic is not None:
            traffic.bytes_in += HEADER_SIZE + len(payload)
            traffic.messages_in += count
        return first_offset

    def _role_ended(self) -> RoleEnded:
        return RoleEnded(
            f"this broker no longer leads {self.topic}-{self.index} in epoch {self.epoch}"
        )

    def _record_append(self, log: Log, size_bytes: int, duplicate: bool, needs_flush: bool) -> None:
        if needs_flush or self._unflushed:
            # A duplicate waits for the flush of the original batch, too.
            if self._unflushed is None:
                self._unflushed = []
            size = 0 if duplicate else size_bytes
            self._unflushed.append((log.log_end_offset, size))
        elif not duplicate:
            self.high_watermark = log.log_end_offset
            if self._waiters:
                self._notify_waiters(size_bytes)

    @property
    def flush_pending(self) -> bool:
        return bool(self._unflushed)

    def flushed(self, up_to: int) -> None:
        """Called when every offset below `up_to` is flushed."""
        done = [size for end, size in self._unflushed or () if end <= up_to]
        if done and self._unflushed:
            self._unflushed = self._unflushed[len(done) :]
            self.high_watermark = up_to
            self._notify_waiters(sum(done))
            self._complete_commit_waits()

    # --- waiting for commits --------------------------------------------------------------------

    def when_committed(self, next_offset: int, callback: Committed) -> None:
        """Calls `callback` when all records below `next_offset` are committed, or cannot be."""
        if self.closed:
            callback(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif next_offset <= self.high_watermark:
            callback(self._commit_result())
        else:
            waits = self._waits
            if waits is None:
                waits = self._waits = []
            insort(waits, _CommitWait(next_offset, callback), key=_offset_of)

    def stop_waiting(self, callback: Committed) -> None:
        """Removes the callback of a wait that has timed out or was cancelled."""
        self._waits = [wait for wait in self._waits or () if wait.callback != callback]

    def _commit_result(self) -> ErrorCode:
        enough = self.enough_in_sync
        return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def _complete_commit_waits(self) -> None:
        """Calls the callbacks of all waits that the watermark has passed."""
        waits, end = self._waits, self.high_watermark
        if not waits or waits[0].offset > end:
            return
        done = [wait for wait in waits if wait.offset <= end]
        self._waits = waits[len(done) :]
        verdict = self._commit_result()
        for wait in done:
            wait.callback(verdict)

    def close(self) -> None:
        super().close()
        waits, self._waits = self._waits, None
        for wait in waits or ():
            wait.callback(ErrorCode.NOT_LEADER_OR_FOLLOWER)
