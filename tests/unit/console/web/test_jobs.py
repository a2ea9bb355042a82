"""A job runs once for each key, and keeps its progress, its result or its error."""

import asyncio
import threading

import pytest

from headrace.clock import SystemClock
from headrace.console.web.jobs import AlreadyRunning, Job, Jobs


async def ended(job: Job) -> Job:
    async with asyncio.timeout(10):
        await job.ended.wait()
    return job


def test_a_second_job_with_the_same_key_is_refused_until_the_first_has_ended() -> None:
    async def main() -> None:
        jobs, go = Jobs(SystemClock()), threading.Event()
        first = jobs.start("topic", "the replay", lambda job: go.wait(10))
        with pytest.raises(AlreadyRunning, match="the replay"):
            jobs.start("topic", "another", lambda job: None)
        other = jobs.start("other topic", "another", lambda job: 7)
        assert (await ended(other)).result == 7
        assert jobs.find("topic") is first
        go.set()
        await ended(first)
        again = jobs.start("topic", "the second replay", lambda job: None)
        assert jobs.find("topic") is again
        await ended(again)

    asyncio.run(main())


def test_a_job_that_fails_keeps_its_progress_and_its_error() -> None:
    def work(job: Job) -> object:
        job.progress = "half"
        raise OSError("disk full")

    async def main() -> None:
        job = await ended(Jobs(SystemClock()).start("k", "work", work))
        assert (job.progress, job.result, job.problem) == ("half", None, "disk full")

    asyncio.run(main())
