"""The batches that were read for a share group, located by their headers alone."""

from collections.abc import Iterable
from typing import NamedTuple

from headrace.records.batch_header import BatchHeader, headers
from headrace.records.buffer import Buffer
from headrace.share.record_state import Acquired


class FetchedBatch(NamedTuple):
    """A whole batch and its position in the buffer."""

    position: int
    header: BatchHeader


class AbortedTransaction(NamedTuple):
    """An aborted transaction in the log's index."""

    producer_id: int
    first_offset: int


def whole_batches(records: Buffer) -> list[FetchedBatch]:
    """The batches; an incomplete one at the end is skipped."""
    return [FetchedBatch(at, header) for at, header in headers(records, partial_tail=True)]


def offset_ranges(batches: Iterable[FetchedBatch]) -> list[tuple[int, int]]:
    return [(header.base_offset, header.last_offset) for _, header in batches]


def aborted_ranges(
    batches: Iterable[FetchedBatch], aborted: Iterable[AbortedTransaction]
) -> list[tuple[int, int]]:
    """The batches of aborted transactions."""
    waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    producers: set[int] = set()
    ranges = []
    for _, header in batches:
        if not header.has_producer_id:
            continue
        while waiting and waiting[-1].first_offset <= header.last_offset:
            producers.add(waiting.pop().producer_id)
        if header.is_control:
            producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in producers:
            ranges.append((header.base_offset, header.last_offset))
    return ranges


def slice_acquired(
    records: memoryview, batches: Iterable[FetchedBatch], acquired: list[Acquired]
) -> memoryview:
    """The bytes from the first batch with an acquired record to the last one."""
    first, last = acquired[0].first, acquired[-1].last
    covering = [
        (at, at + header.size)
        for at, header in batches
        if header.last_offset >= first and header.base_offset <= last
    ]
    return records[covering[0][0] : covering[-1][1]] if covering else records[:0]
