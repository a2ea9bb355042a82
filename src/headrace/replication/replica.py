"""A partition's replica on this broker, in any role: its log, its epoch, its waiters.

Guarantees: the high watermark never passes the log's end. Waiters are notified when the watermark
moves, with the number of new bytes, without polling.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headrace.protocol.errors import ErrorCode
from headrace.storage.log.log import Log

if TYPE_CHECKING:
    from headrace.metrics.topic_traffic import TopicTraffic


class Waiter(Protocol):
    """Waits for changes of a partition."""

    def advanced(self, size_bytes: int) -> None:
        """Called when `size_bytes` more bytes are readable."""
        ...

    def interrupted(self) -> None:
        """Called when the partition has changed: the waiter must check it again."""
        ...


class Replica:
    """The common part of leaders and followers. A broker has thousands: logs open on first use."""

    __slots__ = (
        "_log",
        "_open_log",
        "_waiters",
        "closed",
        "epoch",
        "high_watermark",
        "index",
        "topic",
        "topic_id",
        "traffic",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        epoch: int,
        open_log: "Callable[[Replica], Log]",
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.epoch = epoch
        self.high_watermark = -1
        self.closed = False
        self.traffic: TopicTraffic | None = None
        """The counters of the topic, if the broker has an HTTP port."""
        self._open_log = open_log
        self._log: Log | None = None
        self._waiters: list[Waiter] | None = None

    @property
    def log(self) -> Log:
        log = self._log
        if log is None:
            log = self._log = self._open_log(self)
            self._log_opened(log)
        return log

    def _log_opened(self, log: Log) -> None:
        """Sets the high watermark after the log was opened."""
        self.high_watermark = log.log_end_offset

    def moved_to(self, log: Log) -> None:
        """Uses the copy of the log in another directory from now on."""
        self._log = log

    @property
    def is_open(self) -> bool:
        return self._log is not None

    @property
    def known_watermark(self) -> int:
        """The high watermark, also before the log is open; -1 if unknown."""
        return self.high_watermark

    def flushed(self, up_to: int) -> None:
        """Called when every offset below `up_to` is flushed."""

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which a read_committed consumer may read."""
        return self.log.stable_offset(self.high_watermark)

    # --- waiting --------------------------------------------------------------------------------

    def watch(self, waiter: Waiter) -> None:
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)

    def unwatch(self, waiter: Waiter) -> None:
        if self._waiters is not None and waiter in self._waiters:
            self._waiters.remove(waiter)

    def interrupt(self) -> None:
        """Wakes all waiters, for example because the log start moved or the topic was deleted."""
        for waiter in tuple(self._waiters or ()):
            waiter.interrupted()

    def close(self) -> None:
        """Ends this role: the topic was deleted, or the role has changed."""
        self.closed = True
        self.interrupt()

    def _notify_waiters(self, size_bytes: int) -> None:
        for waiter in tuple(self._waiters or ()):
            waiter.advanced(size_bytes)

    # --- epochs ---------------------------------------------------------------------------------

    def check_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Compares a client's leader epoch with this replica's (KIP-320)."""
        if current_leader_epoch in (-1, self.epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH
