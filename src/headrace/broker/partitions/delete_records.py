"""DeleteRecords at the leader: advances the log start offset, then waits for the followers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from headrace.cluster.topology import INTERNAL_TOPICS
from headrace.protocol.errors import ErrorCode
from headrace.replication.leader import Leader
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import StorageError
from headrace.storage.state.log_config import DELETE

if TYPE_CHECKING:
    from headrace.broker.partitions.partition_table import PartitionTable
    from headrace.cluster.image import MetadataImage

UP_TO_HIGH_WATERMARK: Final = -1
NO_LOW_WATERMARK: Final = -1

R = TypeVar("R")


@dataclass(slots=True)
class DeletedRecords:
    """The result for one partition. It changes until the followers have deleted the records."""

    low_watermark: int = NO_LOW_WATERMARK
    """The lowest log start offset of the live replicas."""
    error: ErrorCode = ErrorCode.NONE
    before: int = 0
    """Records before this offset are deleted."""
    leader: Leader | None = None
    """The leader, if it has followers."""

    def update_low_watermark(self, live_brokers: set[int]) -> None:
        """Reads the low watermark, or sets the error if the leader has changed."""
        if self.leader is None:
            return
        if self.leader.closed:
            self.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self.low_watermark = NO_LOW_WATERMARK
        else:
            self.low_watermark = self.leader.low_watermark(live_brokers)

    @property
    def is_pending(self) -> bool:
        """Whether a live follower still has some of the records."""
        return not self.error and self.low_watermark < self.before


def delete_records(table: PartitionTable, topic: str, index: int, offset: int) -> DeletedRecords:
    """Deletes the records before `offset` from the leader's log."""
    if topic in INTERNAL_TOPICS:
        return DeletedRecords(error=ErrorCode.INVALID_TOPIC_EXCEPTION)
    leader = table.find(topic, index)
    if not isinstance(leader, SoleLeader):
        return DeletedRecords(error=leader)
    try:
        log = leader.log
        if DELETE not in log.config.cleanup_policy:
            return DeletedRecords(error=ErrorCode.POLICY_VIOLATION)
        before = leader.high_watermark if offset == UP_TO_HIGH_WATERMARK else offset
        if not 0 <= before <= leader.high_watermark:
            return DeletedRecords(error=ErrorCode.OFFSET_OUT_OF_RANGE)
        if before > log.log_start_offset:
            log.delete_before(before)
            leader.interrupt()
    except StorageError as error:
        return DeletedRecords(error=error.code)
    followed = leader if isinstance(leader, Leader) else None
    return DeletedRecords(log.log_start_offset, before=before, leader=followed)


class DelayedDeleteRecords(Generic[R]):
    """A response that waits until every live replica has deleted the records, or for a timeout."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        image: Callable[[], MetadataImage],
        deleted: Sequence[DeletedRecords],
        timeout_s: float,
        respond: Callable[[], R],
    ) -> None:
        """`respond` builds the response from `deleted`."""
        self.future: asyncio.Future[R] = loop.create_future()
        self._image = image
        self._deleted = deleted
        self._respond = respond
        self._leaders = [each.leader for each in deleted if each.leader is not None]
        self._timer = loop.call_later(timeout_s, self._time_out)
        for leader in self._leaders:
            leader.watch_starts(self._respond_if_complete)
        self.future.add_done_callback(lambda _: self._unsubscribe())
        self._respond_if_complete()

    def _respond_if_complete(self) -> None:
        live = {broker.broker_id for broker in self._image().live_brokers()}
        for each in self._deleted:
            each.update_low_watermark(live)
        if not any(each.is_pending for each in self._deleted) and not self.future.done():
            self.future.set_result(self._respond())

    def _time_out(self) -> None:
        for each in self._deleted:
            if each.is_pending:
                each.error = ErrorCode.REQUEST_TIMED_OUT
        if not self.future.done():
            self.future.set_result(self._respond())

    def _unsubscribe(self) -> None:
        self._timer.cancel()
        for leader in self._leaders:
            leader.unwatch_starts(self._respond_if_complete)
