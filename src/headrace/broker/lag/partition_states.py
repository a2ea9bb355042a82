"""The state of partitions that this broker leads, for the positions of consumers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from headrace.broker.lag.next_records import NextRecords, NextRecordsHost
from headrace.broker.lag.positions import (
    NO_TIMESTAMP,
    OpenTransaction,
    PartitionState,
    Position,
)
from headrace.broker.lag.time_slices import TimeSlices
from headrace.replication.leader import Leader
from headrace.replication.replica import Replica
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.errors import StorageError
from headrace.storage.log.next_record import NextRecord


class OffsetBounds(NamedTuple):
    """The readable part of a log: from the log start up to the high watermark."""

    log_start_offset: int
    end_offset: int


class PartitionStatesHost(NextRecordsHost, Protocol):
    """The part of the broker that leads partitions."""

    @property
    def logs(self) -> LogManager: ...


class PartitionStates:
    """Answers for leaders on this broker."""

    def __init__(self, host: PartitionStatesHost) -> None:
        self._host = host
        self._next_records = NextRecords(host)

    async def of(
        self, leader: SoleLeader, positions: Iterable[Position], slices: TimeSlices
    ) -> PartitionState | None:
        """The partition's state; None if its log has failed or its offsets are not known yet."""
        bounds = bounds_of(leader, self._host.logs)
        if bounds is None:
            return None
        start, end = bounds
        if isinstance(leader, Leader) and leader.is_open and not leader.knows_watermark:
            return None  # the previous leader may have shown records that this one cannot show yet
        next_records: dict[Position, NextRecord | None] = {}
        for position in positions:
            if position.offset >= end:
                next_records[position] = None  # the usual case: the log is not even opened
                continue
            try:
                next_records[position] = await self._next_records.find(leader, position, slices)
            except StorageError:
                continue  # the reader of the log reports the damage
            if slices.is_over:
                await slices.rest()
        stable = min(stable_offset(leader, end), end)
        transaction = await self._open_transaction(leader, end, slices)
        return PartitionState(start, end, stable, next_records, transaction)

    async def _open_transaction(
        self, leader: SoleLeader, end: int, slices: TimeSlices
    ) -> OpenTransaction | None:
        if not leader.is_open or not leader.log.is_loaded:
            return None
        first, producer_id = leader.log.first_unstable_offset, leader.log.earliest_open_producer
        if first is None or producer_id is None or first >= end:
            return None
        position = Position(first, skip_aborted=False)
        try:
            record = await self._next_records.find(leader, position, slices)
        except StorageError:
            record = None
        return OpenTransaction(producer_id, record.timestamp if record else NO_TIMESTAMP)


def bounds_of(replica: Replica, logs: LogManager) -> OffsetBounds | None:
    """The bounds of a replica's log; None if they are unknown. Opens no log that is not in use."""
    try:
        if replica.is_open:
            if replica.log.failure is not None:
                return None
            return OffsetBounds(replica.log.log_start_offset, replica.high_watermark)
        stored = logs.get(replica.topic, replica.index)
        if stored is None:
            return OffsetBounds(0, 0)
        if stored.failure is not None:
            return None
        if not stored.knows_offsets:
            return OffsetBounds(replica.log.log_start_offset, replica.high_watermark)
    except StorageError:
        return None
    start, end = stored.log_start_offset, stored.log_end_offset
    known = replica.known_watermark
    return OffsetBounds(start, end if known < 0 else max(start, min(known, end)))


def stable_offset(leader: SoleLeader, end: int) -> int:
    """The last stable offset; of a log that is not in use, the end."""
    if not leader.is_open or not leader.log.is_loaded:
        return end
    return leader.last_stable_offset
