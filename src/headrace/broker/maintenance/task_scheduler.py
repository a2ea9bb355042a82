"""Runs the periodic work of a broker: retention, timed flushes, checkpoints, idle connections.

Each task has its own interval on the broker's clock. A task that fails is logged and retried; it
never stops the other tasks. File work runs off the event loop where storage allows it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from headrace.broker.runtime.timers import Timer, Timers
from headrace.storage.errors import DiskFull
from headrace.storage.files.free_space import free_bytes

log = logging.getLogger(__package__)


class PeriodicTask(NamedTuple):
    """Work that runs every `interval_s`. `name` is a verb phrase: log lines say "cannot <name>"."""

    name: str
    interval_s: float
    run: Callable[[], Awaitable[None]]


class TaskScheduler:
    """Runs periodic tasks until it is stopped."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        count_full_logs: Callable[[str | None], int] = lambda _directory: 0,
    ) -> None:
        """`count_full_logs` returns how many logs of a log directory (None: of all directories)
        refused their last append because the disk was full."""
        self._loop = loop
        self._timers = timers
        self._count_full_logs = count_full_logs
        self._tasks: list[asyncio.Task[None]] = []
        self._due = 0

    @property
    def busy(self) -> bool:
        """Whether a task is due or running."""
        return self._due > 0

    def start(self, tasks: list[PeriodicTask]) -> None:
        """Starts the tasks; the first interval of each begins now."""
        self._tasks = [
            self._loop.create_task(self._repeat(task, self._pause(task.interval_s)))
            for task in tasks
        ]

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _repeat(self, task: PeriodicTask, pause: "_Pause") -> None:
        full_directory: _FullDirectory | None = None
        while True:
            try:
                await pause.over
            finally:
                pause.timer.cancel()
            try:
                await task.run()
                if full_directory is not None:
                    log.info(
                        "disk has space again, so the broker can %s",
                        task.name,
                        extra=full_directory.log_fields(),
                    )
                full_directory = None
            except DiskFull as error:
                full_directory = self._log_full_disk(task, error, full_directory)
            except Exception:
                log.exception("periodic task failed, retrying", extra={"task_name": task.name})
            finally:
                self._due -= 1
            pause = self._pause(task.interval_s)

    def _log_full_disk(
        self, task: PeriodicTask, error: DiskFull, before: "_FullDirectory | None"
    ) -> "_FullDirectory":
        """Logs one warning until the task succeeds again, and one when appends begin to fail."""
        full_logs = self._count_full_logs(error.directory)
        had_failed_appends = before is not None and before.has_failed_appends
        is_new = before is None or (full_logs > 0 and not had_failed_appends)
        level = logging.WARNING if is_new else logging.DEBUG
        full = _FullDirectory(error.directory, had_failed_appends or full_logs > 0)
        extra = full.log_fields() | {"error": str(error)}
        if full_logs:
            log.log(
                level,
                "disk full: cannot %s; appends to %d logs fail until there is space",
                task.name,
                full_logs,
                extra=extra,
            )
        else:
            log.log(
                level,
                "disk full: cannot %s, retrying in %g s",
                task.name,
                task.interval_s,
                extra=extra,
            )
        return full

    def _pause(self, interval_s: float) -> "_Pause":
        """A task counts as due from the end of its pause."""
        over: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not over.done():
                self._due += 1
                over.set_result(None)

        return _Pause(over, self._timers.call_later(interval_s, wake))


class _FullDirectory(NamedTuple):
    """The log directory in which a task found no space; None if the error does not say."""

    path: str | None
    has_failed_appends: bool  # an append to one of its logs has failed since then

    def log_fields(self) -> dict[str, object]:
        free = None if self.path is None else free_bytes(self.path)
        return {"dir": self.path, "free_bytes": free}


class _Pause(NamedTuple):
    """The time until a task is due again."""

    over: asyncio.Future[None]
    timer: Timer
