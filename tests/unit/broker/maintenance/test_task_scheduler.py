"""Chores go on, whatever becomes of one try."""

import asyncio
import logging

import pytest

from headrace.broker.maintenance.task_scheduler import PeriodicTask, TaskScheduler
from headrace.broker.runtime.timers import Timers
from headrace.clock import SystemClock
from headrace.storage.errors import DiskFull

TRIES = 5


def test_a_chore_that_finds_no_room_says_so_once_until_it_has_found_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        tried = 0
        enough = loop.create_future()

        async def write() -> None:
            nonlocal tried
            tried += 1
            if tried == 2 * TRIES and not enough.done():
                enough.set_result(None)
            if tried != TRIES:
                raise DiskFull("no room")

        chores = TaskScheduler(loop, Timers(loop, SystemClock()))
        chores.start([PeriodicTask("writing", 0.001, write)])
        async with asyncio.timeout(20):
            await enough
        await chores.stop()

    asyncio.run(run())
    said = "disk full: cannot write writing; producers are being refused"
    assert [record.message for record in caplog.records] == [said] * 2
    assert not any(record.exc_info for record in caplog.records)
