"""Which dead letters of a share partition were written last: so that a crash doubles none.

A share partition writes one batch of letters, archives its records, and only then writes the next.
So after a crash only its last batch is in doubt. It is looked for from the log's end, where it is
as a rule; other groups may have written behind it.
"""

from __future__ import annotations

from typing import Final

from headrace.broker.share.dlq_partition import DlqPartition
from headrace.records.errors import RecordError
from headrace.records.record import iter_records
from headrace.share.dead_letter import RecordOrigin, source_offset
from headrace.share.fetched_batches import whole_batches

STEP_OFFSETS: Final = 1024
MAX_LOOK_BYTES: Final = 64 << 20
"""Behind so much of others' letters one is not looked for: it may come twice then."""
MAX_BATCH_BYTES: Final = 64 << 20


async def last_written(log: DlqPartition, origin: RecordOrigin) -> frozenset[int]:
    """The source offsets of the last batch of letters that came from there."""
    start, end = await log.bounds()
    looked = 0
    while end > start and looked < MAX_LOOK_BYTES:
        begin = max(start, end - STEP_OFFSETS)
        found, size = await _last_between(log, origin, begin, end)
        if found:
            return found
        looked += size
        end = begin
    return frozenset()


async def _last_between(
    log: DlqPartition, origin: RecordOrigin, begin: int, end: int
) -> tuple[frozenset[int], int]:
    found: frozenset[int] = frozenset()
    size = 0
    while begin < end:
        data = await log.read(begin)
        size += len(data)
        following = begin
        for at, header in whole_batches(data):
            following = max(following, header.next_offset)
            if header.is_control or header.base_offset >= end:
                continue
            letters = _offsets(memoryview(data)[at : at + header.size], origin)
            found = letters or found
        if following == begin:
            break  # nothing more is committed yet
        begin = following
    return found, size


def _offsets(batch: memoryview, origin: RecordOrigin) -> frozenset[int]:
    try:
        records = iter_records(batch, max_bytes=MAX_BATCH_BYTES)
        offsets = (source_offset(each.headers, origin) for each in records)
        return frozenset(offset for offset in offsets if offset is not None)
    except RecordError:
        return frozenset()  # of somebody else: ours can be read
