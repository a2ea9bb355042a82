"""Finds the dead letters that a share partition wrote last, so that a crash duplicates none.

A share partition writes one batch of dead letters, archives its records, and only then writes the
next batch. After a crash it is unknown only of the last batch whether it was written. The search
starts at the end of the log, where that batch usually is; other groups may have written after it.
"""

from __future__ import annotations

from typing import Final

from headrace.broker.share.dlq_partition import DlqPartition
from headrace.records.errors import RecordError
from headrace.records.record import iter_records
from headrace.share.dead_letter_format import RecordOrigin, source_offset
from headrace.share.fetched_batches import whole_batches

STEP_OFFSETS: Final = 1024
MAX_SEARCH_BYTES: Final = 64 << 20
"""The search stops after this many bytes; a dead letter before them may be written twice."""
MAX_BATCH_BYTES: Final = 64 << 20


async def last_written(log: DlqPartition, origin: RecordOrigin) -> frozenset[int]:
    """The source offsets of the last batch of dead letters from this share partition."""
    start, end = await log.bounds()
    searched_bytes = 0
    while end > start and searched_bytes < MAX_SEARCH_BYTES:
        begin = max(start, end - STEP_OFFSETS)
        found, size = await _last_between(log, origin, begin, end)
        if found:
            return found
        searched_bytes += size
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
        return frozenset()  # another producer's batch; ours are readable
