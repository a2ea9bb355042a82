"""A batch that must be looked into record by record, without holding up everybody else.

Compacted topics and topics with bounded timestamps make the broker read each record, and a batch
may hold a hundred thousand. The look is taken in slices; between them the loop serves others. The
connection that sent the batch waits, so that its later batches do not overtake this one.
"""

import asyncio
from collections.abc import Callable

from headrace.clock import Clock
from headrace.records.errors import RecordError
from headrace.records.record_validation import Inspection, Rules, inspect_in_slices
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.log.log import AppendResult
from headrace.storage.state.append_validation import storage_error


async def append_after_look(
    leader: SoleLeader,
    batch: bytearray,
    rules: Rules,
    clock: Clock,
    check: Callable[[SoleLeader], None] | None = None,
) -> AppendResult:
    """Appends `batch`, which nobody else may change; raises as `SoleLeader.append` does.

    `check` raises if what was true before the look no longer is.
    """
    try:
        looked = await _look(batch, rules)
    except RecordError as error:
        raise storage_error(error) from error
    if check is not None:
        check(leader)
    return leader.append(memoryview(batch), clock.wall_ms(), looked=looked)


async def _look(batch: bytearray, rules: Rules) -> Inspection:
    look = inspect_in_slices(batch, rules)
    while True:
        try:
            next(look)
        except StopIteration as done:
            found: Inspection = done.value
            return found
        await asyncio.sleep(0)
