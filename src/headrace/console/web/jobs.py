"""Long changes that go on after their request: one for each key at a time, with its progress.

A job runs in a thread, because pipelines' code blocks. It is not stopped with the browser's
connection. When the console stops, the process waits for the transaction that is under way.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from headrace.clock import Clock

MAX_JOBS: Final = 64
"""Finished jobs beyond this number are forgotten, oldest first."""
logger: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Job:
    """One job; `result` is set when it has succeeded, `problem` when it has failed."""

    title: str
    began_ms: int
    progress: object = None
    result: object = None
    problem: str | None = None
    ended_ms: int | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_running(self) -> bool:
        return self.ended_ms is None


class AlreadyRunning(Exception):
    """A job with this key is running."""


class Jobs:
    """The jobs of a console."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: dict[Hashable, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, key: Hashable) -> Job | None:
        return self._jobs.get(key)

    def start(self, key: Hashable, title: str, work: Callable[[Job], object]) -> Job:
        """Starts `work` in a thread; it may set `progress` of its job. Raises `AlreadyRunning`."""
        known = self._jobs.pop(key, None)
        if known is not None and known.is_running:
            self._jobs[key] = known
            raise AlreadyRunning(known.title)
        job = Job(title, self._clock.wall_ms())
        self._jobs[key] = job
        self._forget_oldest()
        task = asyncio.create_task(self._run(job, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    async def _run(self, job: Job, work: Callable[[Job], object]) -> None:
        try:
            job.result = await asyncio.to_thread(work, job)
        except Exception as error:
            logger.warning("%s failed: %s", job.title, error)
            job.problem = str(error) or type(error).__name__
        finally:
            job.ended_ms = self._clock.wall_ms()
            job.ended.set()

    def _forget_oldest(self) -> None:
        done = [key for key, job in self._jobs.items() if not job.is_running]
        for key in done[: max(0, len(self._jobs) - MAX_JOBS)]:
            del self._jobs[key]
