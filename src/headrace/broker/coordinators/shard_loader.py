"""Rebuilds a shard from its partition of the internal topic, in slices.

A large partition takes seconds. The event loop serves clients between slices; partitions that load
at the same time alternate, one slice per iteration of the loop.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.common.shard import Shard
from headrace.records.batch_header import BatchHeader, check_batch, headers
from headrace.records.control import ControlType, read_control
from headrace.records.record import iter_records
from headrace.replication.sole_leader import SoleLeader

log = logging.getLogger(__package__)

READ_BYTES: Final = 1 << 20
RECORDS_PER_SLICE: Final = 100  # about two milliseconds of work
MAX_DECOMPRESSED_BYTES: Final = 64 << 20  # limit for one batch: no coordinator writes larger ones


class LogNotLoaded(Exception):
    """A log of an internal topic has a gap or a partial batch."""


class ShardLoader:
    """Lets concurrent loads of one broker alternate."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def load(self, leader: SoleLeader, shard: Shard) -> None:
        """Returns without an await after the log's last record was replayed."""
        slices = replayed(leader, shard)
        more = True
        while more:
            async with self._turn:
                more = next(slices, None) is not None
                if more:
                    await asyncio.sleep(0)


def replayed(leader: SoleLeader, shard: Shard) -> Iterator[int]:
    """Replays the whole log; yields the next offset between slices."""
    partition_log = leader.log
    offset = partition_log.log_start_offset
    left = RECORDS_PER_SLICE
    while offset < partition_log.log_end_offset:
        offset = max(offset, partition_log.log_start_offset)  # records may be deleted meanwhile
        data = memoryview(partition_log.read(offset, max_bytes=READ_BYTES).data)
        if not data:
            break  # compaction has removed the last records
        before = offset
        for pos, header in headers(data, partial_tail=True):
            check_batch(data, pos, header)
            for _ in _replay_batch(leader, shard, header, data[pos : pos + header.size]):
                left -= 1
                if left == 0:
                    yield offset
                    left = RECORDS_PER_SLICE
            offset = header.next_offset
        if offset == before:
            raise LogNotLoaded(f"no complete batch at offset {offset} of {partition_log.name}")


def _replay_batch(
    leader: SoleLeader, shard: Shard, header: BatchHeader, batch: memoryview
) -> Iterator[None]:
    """Replays a batch; yields after each record."""
    producer = None
    if header.is_transactional:
        producer = ProducerIdentity(header.producer_id, header.producer_epoch)
    for record in iter_records(batch, max_bytes=MAX_DECOMPRESSED_BYTES):
        if not header.is_control:
            change = shard.format.decode(record.key, record.value)
            if change is not None:
                shard.replay(record.offset, change, producer)
            else:
                log.warning(
                    "skipped a record of unknown type while loading a coordinator shard",
                    extra={"log": leader.log.name, "offset": record.offset},
                )
        elif producer is not None:
            control = read_control(record).type
            if control in (ControlType.COMMIT, ControlType.ABORT):
                shard.end_transaction(producer, committed=control is ControlType.COMMIT)
        yield
