"""How much of a partition's records is sent, or taken, at once among brokers. Pure.

Others are served between turns of the loop, so a turn is short: about a megabyte, or a hundred
batches. A batch of one small record takes as long as many kilobytes of a large one.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.records.batch import LOG_OVERHEAD
from headrace.records.buffer import Buffer

TURN_COST: Final = 1024 * 1024
BATCH_COST: Final = 8 * 1024
"""In bytes: what a batch costs besides its own."""
_LENGTH_AT: Final = 8  # behind the base offset


class ReplicationSlice(NamedTuple):
    records: Buffer
    cost: int


def turns(records: Buffer) -> Iterator[ReplicationSlice]:
    """Runs of whole batches; a part of one at the end is left out. There is one at least."""
    view = memoryview(records)
    size = len(view)
    start = pos = cost = 0
    while pos + LOG_OVERHEAD <= size:
        length = LOG_OVERHEAD + int.from_bytes(view[pos + _LENGTH_AT : pos + LOG_OVERHEAD], "big")
        if pos + length > size:
            break
        if pos > start and cost + length + BATCH_COST > TURN_COST:
            yield ReplicationSlice(view[start:pos], cost)
            start, cost = pos, 0
        pos += length
        cost += length + BATCH_COST
    yield ReplicationSlice(view[start:pos], cost)
