"""A partition that this broker follows: its log is a copy of the leader's.

Guarantees: records are appended in the leader's order and at the leader's offsets, without gaps; if
the two logs diverge, the follower truncates its log to the last common record, found by leader
epochs and never by the watermark (KIP-101, KIP-279); the watermark is the leader's, and never
passes the log's end.
"""

from collections.abc import Callable
from typing import NamedTuple

from headrace.records.batch_header import whole_size
from headrace.records.buffer import Buffer
from headrace.replication.replica import Replica
from headrace.storage.log.log import AppendResult, Log
from headrace.storage.state.producers import BatchOrigin


class Position(NamedTuple):
    """The state of a follower's log in its fetch."""

    offset: int
    last_epoch: int  # the epoch of the record before `offset`; -1 for an empty log
    log_start: int


class Follower(Replica):
    """One partition's follower. Consumers may read it, up to its watermark (KIP-392)."""

    __slots__ = ("_known_watermark", "leader_id")

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        epoch: int,
        open_log: Callable[[Replica], Log],
        *,
        leader_id: int,
        high_watermark: int,
    ) -> None:
        super().__init__(topic, topic_id, index, epoch, open_log)
        self.leader_id = leader_id
        self._known_watermark = high_watermark

    def _log_opened(self, log: Log) -> None:
        self.high_watermark = max(
            log.log_start_offset, min(self._known_watermark, log.log_end_offset)
        )

    @property
    def known_watermark(self) -> int:
        return self.high_watermark if self.is_open else self._known_watermark

    def follow(self, leader_id: int, epoch: int) -> None:
        """Follows another leader, or a new epoch; late responses of an older epoch are ignored."""
        self.leader_id = leader_id
        self.epoch = epoch

    def position(self) -> Position:
        log = self.log
        end = log.log_end_offset
        # Not the latest epoch: this broker may have led in that epoch without appending a record.
        return Position(end, log.epoch_at(end - 1), log.log_start_offset)

    def append_fetched(
        self, records: Buffer, leader_watermark: int, leader_start: int, now_ms: int
    ) -> AppendResult | None:
        """Appends whole batches; `needs_flush` asks for a flush before the next fetch."""
        log = self.log
        result = None
        size = whole_size(records)
        if size:
            batches = memoryview(records)[:size]
            result = log.append(
                batches,
                leader_epoch=self.epoch,
                now_ms=now_ms,
                origin=BatchOrigin.REPLICATION,
                # No commit waits for a replica that lacks committed records.
                in_pieces=leader_watermark > log.log_end_offset,
            )
            if self.traffic is not None:
                self.traffic.replication_bytes_in += size
        if leader_start > log.log_start_offset:
            log.delete_before(min(leader_start, log.log_end_offset))
        self._raise_watermark(min(leader_watermark, log.log_end_offset), size)
        return result

    def _raise_watermark(self, watermark: int, size_bytes: int) -> None:
        if watermark > self.high_watermark:
            self.high_watermark = watermark
            if self._waiters:
                self._notify_waiters(max(1, size_bytes))

    def truncate_to(self, leader_epoch: int, end_offset: int) -> int:
        """Truncates the log where it diverges: the leader's `leader_epoch` ended at `end_offset`.

        If this log does not know that epoch, the next fetch continues the search. Returns the new
        end of the log.
        """
        log = self.log
        epoch, end = log.end_offset_for_epoch(leader_epoch)
        target = min(end_offset if epoch < 0 else end, log.log_end_offset)
        if epoch == leader_epoch:
            target = min(target, end_offset)
        log.truncate_to(max(target, 0))
        self.high_watermark = min(self.high_watermark, log.log_end_offset)
        return log.log_end_offset

    def truncate_to_leader_end(self, end_offset: int) -> None:
        """Truncates to the end of the leader's log, which has no common epoch to compare."""
        self.log.truncate_to(end_offset)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empties the log; it starts again at `offset`, the leader's log start offset."""
        self.log.truncate_fully_and_start_at(offset)
        self.high_watermark = offset
