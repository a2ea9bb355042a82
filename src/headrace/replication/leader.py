"""A partition that this broker leads.

Guarantees: the high watermark only grows, never passes the log's end, and never passes a record
whose flush was promised (`flush.messages`) before that flush is done. Whoever waits for records
is told when the watermark moves, by how many bytes, without polling.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.protocol.errors import ErrorCode
from headrace.records.batch import HEADER_SIZE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from headrace.records.deep import Inspection
from headrace.records.plain import KeyAndValue
from headrace.storage.log import AppendResult, Log
from headrace.storage.producers import Origin


class Waiter(Protocol):
    """Someone who waits for a partition to have news."""

    def advanced(self, size_bytes: int) -> None:
        """`size_bytes` more have become readable."""
        ...

    def interrupted(self) -> None:
        """The partition is no longer what the waiter asked for: look again."""
        ...


class Leader:
    """One partition's leader; ten thousand of them must stay small, so logs open on first use."""

    __slots__ = (
        "_log",
        "_open_log",
        "_unflushed",
        "_waiters",
        "closed",
        "epoch",
        "high_watermark",
        "index",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        epoch: int,
        open_log: "Callable[[Leader], Log]",
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.epoch = epoch
        self.high_watermark = -1
        self.closed = False
        self._open_log = open_log
        self._log: Log | None = None
        self._unflushed: list[tuple[int, int]] | None = None  # (end offset, bytes) to be flushed
        self._waiters: list[Waiter] | None = None

    @property
    def log(self) -> Log:
        log = self._log
        if log is None:
            log = self._log = self._open_log(self)
            self.high_watermark = log.log_end_offset
        return log

    @property
    def is_open(self) -> bool:
        return self._log is not None

    @property
    def last_stable_offset(self) -> int:
        """The end of what a read_committed consumer may see."""
        return self.log.stable_offset(self.high_watermark)

    # --- writing --------------------------------------------------------------------------------

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

    def _tell(self, size_bytes: int) -> None:
        for waiter in tuple(self._waiters or ()):
            waiter.advanced(size_bytes)

    # --- waiting --------------------------------------------------------------------------------

    def watch(self, waiter: Waiter) -> None:
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)

    def unwatch(self, waiter: Waiter) -> None:
        if self._waiters is not None and waiter in self._waiters:
            self._waiters.remove(waiter)

    def interrupt(self) -> None:
        """Wakes everyone who waits here, e.g. because the log start moved or the topic is gone."""
        for waiter in tuple(self._waiters or ()):
            waiter.interrupted()

    def close(self) -> None:
        """The topic is gone: nothing more is appended or read."""
        self.closed = True
        self.interrupt()

    # --- epochs ---------------------------------------------------------------------------------

    def check_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Whether a client's idea of the leader epoch is this leader's (KIP-320)."""
        if current_leader_epoch in (-1, self.epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH
