"""A periodic task keeps running, whatever the outcome of one run."""

import asyncio
import logging
from pathlib import Path

import pytest

from headrace.broker.maintenance.task_scheduler import PeriodicTask, TaskScheduler
from headrace.broker.runtime.timers import Timers
from headrace.clock import SystemClock
from headrace.storage.errors import DiskFull

TRIES = 5


def test_a_full_disk_and_the_later_free_space_are_each_logged_once(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)

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
                raise DiskFull("no space left", str(tmp_path))

        scheduler = TaskScheduler(loop, Timers(loop, SystemClock()))
        scheduler.start([PeriodicTask("write the checkpoint", 0.001, write)])
        async with asyncio.timeout(20):
            await enough
        await scheduler.stop()

    asyncio.run(run())
    full = "disk full: cannot write the checkpoint, retrying in 0.001 s"
    again = "disk has space again, so the broker can write the checkpoint"
    assert [record.message for record in caplog.records] == [full, again, full]
    for record in caplog.records:
        assert record.__dict__["dir"] == str(tmp_path)
        assert record.__dict__["free_bytes"] > 0
        assert not record.exc_info


def test_a_full_disk_is_said_to_fail_appends_only_when_it_has_refused_some(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.WARNING)
    full_logs = [0, 0, 3, 3, 0, 3]
    counted: list[str | None] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        enough = loop.create_future()

        def count_full_logs(directory: str | None) -> int:
            counted.append(directory)
            if len(counted) == len(full_logs):
                enough.set_result(None)
            return full_logs[min(len(counted), len(full_logs)) - 1]

        async def write() -> None:
            raise DiskFull("no space left", str(tmp_path))

        scheduler = TaskScheduler(loop, Timers(loop, SystemClock()), count_full_logs)
        scheduler.start([PeriodicTask("write the checkpoint", 0.001, write)])
        async with asyncio.timeout(20):
            await enough
        await scheduler.stop()

    asyncio.run(run())
    assert set(counted) == {str(tmp_path)}
    assert [record.message for record in caplog.records] == [
        "disk full: cannot write the checkpoint, retrying in 0.001 s",
        "disk full: cannot write the checkpoint; appends to 3 logs fail until there is space",
    ]
