"""What a broker does by the clock: retention, timed flushes, checkpoints, idle connections.

Each chore runs in its own rhythm; one that fails is logged and tried again, and never stops the
others. Work on files runs off the loop where storage says that it may.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Chore:
    """Something to do every `interval_s`."""

    name: str
    interval_s: float
    run: Callable[[], Awaitable[None]]


class Housekeeping:
    """Runs chores until it is stopped."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, chores: list[Chore]) -> None:
        self._tasks = [self._loop.create_task(_repeat(chore)) for chore in chores]

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []


async def _repeat(chore: Chore) -> None:
    while True:
        await asyncio.sleep(chore.interval_s)
        try:
            await chore.run()
        except Exception:
            log.exception("a chore failed", extra={"chore": chore.name})
