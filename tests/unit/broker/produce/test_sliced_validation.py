"""Validation of a large batch lets the event loop run between its slices."""

import asyncio
from typing import cast

from headrace.broker.produce.sliced_validation import append_after_validation
from headrace.clock import SystemClock
from headrace.records.record import Record, build_batch
from headrace.records.record_validation import RECORDS_PER_SLICE, Inspection, Rules
from headrace.replication.sole_leader import SoleLeader

SLICES = 4


class Recorder:
    """Takes the place of a leader."""

    def __init__(self) -> None:
        self.inspections: list[Inspection | None] = []

    def append(self, batch: memoryview, now_ms: int, inspection: Inspection | None) -> None:
        self.inspections.append(inspection)


def test_the_event_loop_runs_between_slices() -> None:
    batch = build_batch(
        [Record(index, 1000, b"k", b"v") for index in range(SLICES * RECORDS_PER_SLICE + 1)]
    )
    rules = Rules(max_bytes=1 << 24, now_ms=1000, needs_key=True)
    leader = Recorder()

    async def both() -> int:
        turns = 0
        looking = asyncio.create_task(
            append_after_validation(
                cast("SoleLeader", leader), bytearray(batch), rules, SystemClock()
            )
        )
        while not looking.done():
            turns += 1
            await asyncio.sleep(0)
        looking.result()
        return turns

    assert asyncio.run(both()) >= SLICES
    (inspection,) = leader.inspections
    assert inspection == Inspection((), 1000, SLICES * RECORDS_PER_SLICE + 1)
