"""A partition's copy on this broker, whatever its role: its log, its epoch, who waits for it.

Guarantees: the high watermark never passes the log's end. Whoever waits for records is told when
the watermark moves, by how many bytes, without polling.
"""

from collections.abc import Callable
from typing import Protocol

from headrace.protocol.errors import ErrorCode
from headrace.storage.log.log import Log


class Waiter(Protocol):
    """Someone who waits for a partition to have news."""

    def advanced(self, size_bytes: int) -> None:
        """`size_bytes` more have become readable."""
        ...

    def interrupted(self) -> None:
        """The partition is no longer what the waiter asked for: look again."""
        ...


class Replica:
    """What leaders and followers share; ten thousand must stay small: logs open on first use."""

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
        self._open_log = open_log
        self._log: Log | None = None
        self._waiters: list[Waiter] | None = None

    @property
    def log(self) -> Log:
        log = self._log
        if log is None:
            log = self._log = self._open_log(self)
            self._opened(log)
        return log

    def _opened(self, log: Log) -> None:
        """The log is there: what this role knows of its watermark."""
        self.high_watermark = log.log_end_offset

    def moved_to(self, log: Log) -> None:
        """The same records are in another directory now."""
        self._log = log

    @property
    def is_open(self) -> bool:
        return self._log is not None

    @property
    def known_watermark(self) -> int:
        """Also before the log is open; -1 where nothing is known."""
        return self.high_watermark

    def flushed(self, up_to: int) -> None:
        """A flush that covers every offset below `up_to` is done."""

    @property
    def last_stable_offset(self) -> int:
        """The end of what a read_committed consumer may see."""
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
        """Wakes everyone who waits here, e.g. because the log start moved or the topic is gone."""
        for waiter in tuple(self._waiters or ()):
            waiter.interrupted()

    def close(self) -> None:
        """The topic is gone, or the role has changed: nothing more happens here."""
        self.closed = True
        self.interrupt()

    def _tell(self, size_bytes: int) -> None:
        for waiter in tuple(self._waiters or ()):
            waiter.advanced(size_bytes)

    # --- epochs ---------------------------------------------------------------------------------

    def check_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Whether a client's idea of the leader epoch is this replica's (KIP-320)."""
        if current_leader_epoch in (-1, self.epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH
