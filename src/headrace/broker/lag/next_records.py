"""The next record of a consumer, at the leader of its partition.

A search that found a record, or nothing up to an offset, is remembered. A scrape then costs only
what has changed since the last one.
"""

from typing import Final, NamedTuple, Protocol

from headrace.broker.lag.positions import Position
from headrace.broker.lag.time_slices import TimeSlices
from headrace.broker.runtime.offload import Offload
from headrace.clock import Clock
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import StorageError
from headrace.storage.log.next_record import NextBatch, NextRecord, first_record
from headrace.storage.state.log_config import COMPACT

MAX_KNOWN: Final = 16_384  # remembered searches, about 4 MB
MAX_INLINE_BYTES: Final = 8192  # a larger batch is decoded in a worker thread
MAX_STEPS: Final = 256  # of one search; the next one goes on from there

_Key = tuple[bytes, int, Position]


class _Known(NamedTuple):
    """The result of a search in one epoch of the log."""

    leader_epoch: int
    truncations: int
    searched_to: int
    """There is no wanted record before this offset."""
    record: NextRecord | None


class NextRecordsHost(Protocol):
    """The part of the broker that the search uses."""

    clock: Clock
    offload: Offload


class SearchNotFinished(StorageError):
    """The markers and aborted records that follow are too many for one search."""


class NextRecords:
    """Finds, for positions of consumers, the records that they read next."""

    def __init__(self, host: NextRecordsHost) -> None:
        self._host = host
        self._known: dict[_Key, _Known] = {}

    async def find(
        self, leader: SoleLeader, position: Position, slices: TimeSlices
    ) -> NextRecord | None:
        """The first record from `position` on; None if there is none below the high watermark.

        Raises `StorageError`.
        """
        log = leader.log
        start = max(position.offset, log.log_start_offset)
        if start >= leader.high_watermark:
            return None
        key = (leader.topic_id, leader.index, position)
        known = self._known.pop(key, None)
        if known is not None and (
            known.leader_epoch != leader.epoch
            or known.truncations != log.truncations
            or COMPACT in log.config.cleanup_policy
        ):
            known = None
        if known is not None:
            if known.record is not None and known.record.offset >= start:
                self._known[key] = known
                return known.record
            start = max(start, known.searched_to)
        limit = leader.high_watermark
        record, searched_to = await self._search(
            leader, start, limit, skip_aborted=position.skip_aborted, slices=slices
        )
        # The transactions of later records may still abort.
        if (searched_to if record is None else record.offset + 1) <= leader.last_stable_offset:
            while len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = _Known(leader.epoch, log.truncations, searched_to, record)
        if record is None and searched_to < limit:
            raise SearchNotFinished(f"{log.name} was searched up to offset {searched_to}")
        return record

    async def _search(
        self, leader: SoleLeader, start: int, limit: int, *, skip_aborted: bool, slices: TimeSlices
    ) -> tuple[NextRecord | None, int]:
        """The record, and the offset up to which the log was searched.

        The log may change at each await: the next step begins with a lookup by offset.
        """
        for _ in range(MAX_STEPS):
            found = leader.log.find_next_record(start, limit, skip_aborted=skip_aborted)
            if isinstance(found, NextBatch):
                record = await self._decode(found)
                if record is not None:
                    return (record, record.offset) if record.offset < limit else (None, limit)
                start = found.end
            elif isinstance(found, NextRecord):
                return found, found.offset
            else:
                start = found.offset
            if start >= limit:
                return None, start
            if slices.is_over:
                await slices.rest()
        return None, start

    async def _decode(self, batch: NextBatch) -> NextRecord | None:
        if len(batch.data) <= MAX_INLINE_BYTES:
            return first_record(batch)
        return await self._host.offload(first_record, batch)
