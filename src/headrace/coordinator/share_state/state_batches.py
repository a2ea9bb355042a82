"""Batches of delivery states, merged.

Where batches overlap, the one with the higher delivery count wins, and among equals the one in the
later state, as in Kafka: this batch is newer, regardless of the order of arrival.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise

from headrace.share.record_state import StateBatch


def combine(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Sorted batches without overlaps, as few as possible, nothing before `start_offset`."""
    waiting = sorted(_from(batches, start_offset), reverse=True)
    points = sorted({point for batch in waiting for point in (batch.first, batch.last + 1)})
    live: list[tuple[int, int, StateBatch]] = []  # a heap, the winning batch first
    combined: list[StateBatch] = []
    for point, following in pairwise(points):
        while waiting and waiting[-1].first <= point:
            batch = waiting.pop()
            heappush(live, (-batch.deliveries, -batch.state, batch))
        while live and live[0][2].last < point:
            heappop(live)
        if live:
            _, _, batch = live[0]
            _add(combined, batch._replace(first=point, last=following - 1))
    return tuple(combined)


def _from(batches: Iterable[StateBatch], start_offset: int) -> Iterable[StateBatch]:
    for batch in batches:
        if batch.first > batch.last or batch.last < start_offset:
            continue
        yield batch if batch.first >= start_offset else batch._replace(first=start_offset)


def _add(combined: list[StateBatch], batch: StateBatch) -> None:
    before = combined[-1] if combined else None
    if before and before.last + 1 == batch.first and before[2:] == batch[2:]:
        combined[-1] = before._replace(last=batch.last)
    else:
        combined.append(batch)
