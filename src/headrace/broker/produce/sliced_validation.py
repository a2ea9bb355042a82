"""Validation of a batch record by record, without blocking the event loop.

Compacted topics and topics with timestamp limits require the broker to read each record, and a
batch may have a hundred thousand. Validation runs in slices, and the event loop serves other
connections between them. The connection that sent the batch is blocked until the end, so that its
later batches do not overtake this one.
"""

import asyncio
from collections.abc import Callable

from headrace.clock import Clock
from headrace.records.errors import RecordError
from headrace.records.record_validation import Inspection, Rules, inspect_in_slices
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.log.append_validation import storage_error
from headrace.storage.log.log import AppendResult


async def append_after_validation(
    leader: SoleLeader,
    batch: bytearray,
    rules: Rules,
    clock: Clock,
    check: Callable[[SoleLeader], None] | None = None,
) -> AppendResult:
    """Appends `batch`, which no other code may change; raises like `SoleLeader.append`.

    `check` runs after validation. It raises if the append is no longer allowed.
    """
    try:
        inspection = await _validate_in_slices(batch, rules)
    except RecordError as error:
        raise storage_error(error) from error
    if check is not None:
        check(leader)
    return leader.append(memoryview(batch), clock.wall_ms(), inspection=inspection)


async def _validate_in_slices(batch: bytearray, rules: Rules) -> Inspection:
    slices = inspect_in_slices(batch, rules)
    while True:
        try:
            next(slices)
        except StopIteration as done:
            inspection: Inspection = done.value
            return inspection
        await asyncio.sleep(0)
