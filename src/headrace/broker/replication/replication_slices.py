"""The amount of a partition's records that brokers send or append at once. Pure.

Other requests are served between iterations of the loop, so a slice is short: about a megabyte, or
a hundred batches. A batch of one small record takes as long as many kilobytes of a large one.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.records.batch_header import LOG_OVERHEAD
from headrace.records.buffer import Buffer

SLICE_COST: Final = 1024 * 1024
BATCH_COST: Final = 8 * 1024
"""In bytes: the cost of a batch in addition to its size."""
_LENGTH_AT: Final = 8  # after the base offset


class ReplicationSlice(NamedTuple):
    records: Buffer
    cost: int


def slices(records: Buffer) -> Iterator[ReplicationSlice]:
    """Slices of whole batches, at least one; a partial batch at the end is left out."""
    view = memoryview(records)
    size = len(view)
    start = pos = cost = 0
    while pos + LOG_OVERHEAD <= size:
        length = LOG_OVERHEAD + int.from_bytes(view[pos + _LENGTH_AT : pos + LOG_OVERHEAD], "big")
        if pos + length > size:
            break
        if pos > start and cost + length + BATCH_COST > SLICE_COST:
            yield ReplicationSlice(view[start:pos], cost)
            start, cost = pos, 0
        pos += length
        cost += length + BATCH_COST
    yield ReplicationSlice(view[start:pos], cost)
