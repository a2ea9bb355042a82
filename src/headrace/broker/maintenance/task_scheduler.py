"""What a broker does by the clock: retention, timed flushes, checkpoints, idle connections.

Each chore runs in its own rhythm, on the broker's clock; one that fails is logged and tried again,
and never stops the others. Work on files runs off the loop where storage says that it may.
"""

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from headrace.broker.runtime.timers import Timer, Timers
from headrace.storage.errors import DiskFull

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """Something to do every `interval_s`."""

    name: str
    interval_s: float
    run: Callable[[], Awaitable[None]]


class TaskScheduler:
    """Runs chores until it is stopped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timers: Timers) -> None:
        self._loop = loop
        self._timers = timers
        self._tasks: list[asyncio.Task[None]] = []
        self._due = 0

    @property
    def busy(self) -> bool:
        """Whether a chore is due or under way."""
        return self._due > 0

    def start(self, chores: list[PeriodicTask]) -> None:
        """The rhythm of each chore counts from now."""
        self._tasks = [
            self._loop.create_task(self._repeat(chore, self._pause(chore.interval_s)))
            for chore in chores
        ]

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _repeat(self, chore: PeriodicTask, pause: "_Pause") -> None:
        refused = False
        while True:
            try:
                await pause.over
            finally:
                pause.timer.cancel()
            try:
                await chore.run()
                refused = False
            except DiskFull as error:
                # No news at every try, and none of the code: it is told once.
                level = logging.DEBUG if refused else logging.WARNING
                log.log(
                    level,
                    "disk full: cannot write %s; producers are being refused",
                    chore.name,
                    extra={
                        "dir": error.directory,
                        "free": _free_bytes(error.directory),
                        "reason": str(error),
                    },
                )
                refused = True
            except Exception:
                log.exception("a chore failed", extra={"chore": chore.name})
            finally:
                self._due -= 1
            pause = self._pause(chore.interval_s)

    def _pause(self, interval_s: float) -> "_Pause":
        """A chore counts as due from the moment at which its pause is over."""
        over: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not over.done():
                self._due += 1
                over.set_result(None)

        return _Pause(over, self._timers.call_later(interval_s, wake))


def _free_bytes(directory: str | None) -> int | None:
    """None where it cannot be found out."""
    if directory is None:
        return None
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        return None


class _Pause(NamedTuple):
    """The time until a chore is due again."""

    over: asyncio.Future[None]
    timer: Timer
