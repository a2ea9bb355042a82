"""The search for the next record: bounded, remembered, and off the loop where it takes long."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.broker.lag import next_records
from headrace.broker.lag.next_records import (
    MAX_INLINE_BYTES,
    NextRecords,
    NextRecordsHost,
    SearchNotFinished,
)
from headrace.broker.lag.positions import Position
from headrace.broker.lag.time_slices import TimeSlices
from headrace.clock import SystemClock
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.log.log import Log
from headrace.storage.log.next_record import MAX_BATCHES, NextRecord
from headrace.storage.state.producers import BatchOrigin
from support.storage.memory_log import NOW_MS, TOPIC_ID, append, batch, marker, open_log

FROM_START = Position(0)


class Rig:
    """A log with its leader, and a search."""

    def __init__(self) -> None:
        _, self.log = open_log()
        self.leader = SoleLeader("t", TOPIC_ID, 0, 0, lambda _: self.log)
        self.decoded = 0
        host = SimpleNamespace(clock=SystemClock(), offload=self._offload)
        self.records = NextRecords(cast("NextRecordsHost", host))

    def _offload(self, call: Any, *arguments: Any) -> Any:
        self.decoded += 1
        return asyncio.get_running_loop().run_in_executor(None, call, *arguments)

    def find(self, position: Position = FROM_START) -> NextRecord | None:
        assert self.leader.log is self.log  # opens it
        self.leader.high_watermark = self.log.log_end_offset

        async def run() -> NextRecord | None:
            return await self.records.find(self.leader, position, TimeSlices(SystemClock()))

        return asyncio.run(run())


def append_markers(log: Log, count: int) -> None:
    for _ in range(count):
        append(log, marker(1, commit=True), origin=BatchOrigin.COORDINATOR)


def test_a_long_run_of_markers_is_searched_in_several_steps() -> None:
    rig = Rig()
    append_markers(rig.log, 3 * MAX_BATCHES + 5)
    assert rig.find() is None
    append(rig.log, batch(b"v", timestamp=NOW_MS + 1))
    assert rig.find() == NextRecord(3 * MAX_BATCHES + 5, NOW_MS + 1)


def test_a_search_that_takes_too_long_goes_on_at_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(next_records, "MAX_STEPS", 2)
    rig = Rig()
    append_markers(rig.log, 3 * MAX_BATCHES)
    append(rig.log, batch(b"v", timestamp=NOW_MS))
    with pytest.raises(SearchNotFinished):
        rig.find()
    assert rig.find() == NextRecord(3 * MAX_BATCHES, NOW_MS)


def test_a_large_batch_is_decoded_in_a_thread_once() -> None:
    rig = Rig()
    append(rig.log, batch(*[b"x" * MAX_INLINE_BYTES] * 3, timestamp=NOW_MS))
    assert rig.find(Position(1)) == NextRecord(1, NOW_MS)
    assert rig.find(Position(1)) == NextRecord(1, NOW_MS)
    assert rig.decoded == 1


def test_a_truncated_log_is_searched_again() -> None:
    rig = Rig()
    append(rig.log, batch(b"a", timestamp=NOW_MS))
    assert rig.find() == NextRecord(0, NOW_MS)
    rig.log.truncate_to(0)
    append(rig.log, batch(b"b", timestamp=NOW_MS + 5))
    assert rig.find() == NextRecord(0, NOW_MS + 5)
