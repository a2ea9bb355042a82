"""A partition that this broker leads, alone.

Guarantees: the high watermark only grows, never passes the log's end, and never passes a record
whose flush was promised (`flush.messages`) before that flush is done.
"""

from collections.abc import Callable, Sequence

from headrace.records.batch import HEADER_SIZE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from headrace.records.deep import Inspection
from headrace.records.plain import KeyAndValue
from headrace.replication.replica import Replica, Waiter
from headrace.storage.log import AppendResult, Log
from headrace.storage.producers import Origin

__all__ = ["Leader", "Waiter"]


class Leader(Replica):
    """One partition's leader. Without other replicas what is written is committed."""

    __slots__ = ("_unflushed",)

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

    def append(
        self,
        batches: memoryview,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        looked: Inspection | None = None,
    ) -> AppendResult:
        """Appends whole batches; `needs_flush` in the result asks the caller to flush first."""
        log = self._log or self.log
        result = log.append(
            batches, leader_epoch=self.epoch, now_ms=now_ms, origin=origin, looked=looked
        )
        self._appended(log, result, len(batches))
        return result

    def append_own(
        self,
        records: Sequence[KeyAndValue],
        now_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> AppendResult:
        """Appends records of this broker's own coordinator, as one batch."""
        log = self._log or self.log
        result = log.append_own(
            records,
            leader_epoch=self.epoch,
            now_ms=now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        if self._unflushed or self._waiters or result.needs_flush:
            size = HEADER_SIZE + sum(len(key) + len(value or b"") for key, value in records)
            self._appended(log, result, size)  # a few bytes less than it is: fetches do not mind
        else:
            self.high_watermark = result.last_offset + 1
        return result

    def _appended(self, log: Log, result: AppendResult, size_bytes: int) -> None:
        if result.needs_flush or self._unflushed:
            # Also a duplicate waits for the flush that its first copy was promised.
            if self._unflushed is None:
                self._unflushed = []
            size = 0 if result.duplicate else size_bytes
            self._unflushed.append((log.log_end_offset, size))
        elif not result.duplicate:
            self.high_watermark = log.log_end_offset
            if self._waiters:
                self._tell(size_bytes)

    @property
    def flush_pending(self) -> bool:
        return bool(self._unflushed)

    def flushed(self, up_to: int) -> None:
        """A flush that covers every offset below `up_to` is done."""
        done = [size for end, size in self._unflushed or () if end <= up_to]
        if done and self._unflushed:
            self._unflushed = self._unflushed[len(done) :]
            self.high_watermark = up_to
            self._tell(sum(done))
