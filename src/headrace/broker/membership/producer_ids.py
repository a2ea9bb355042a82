"""Producer ids, handed out from blocks that the controller reserves: no id is given twice.

The next block is on its way before the last one is used up. A member of a cluster has one from its
start on: new producers are served also while the store, without which no block can be reserved, is
away.
"""

import asyncio
import logging
from typing import Final

from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

SPARE_BELOW: Final = 100  # ids left: Kafka, too, asks for more when a tenth of a block is left
RETRY_S: Final = 1.0


class ProducerIds:
    """A block at work and one to spare; what a crash leaves of them is lost, never reused."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._next = 0
        self._end = 0
        self._spare: tuple[int, int] | None = None
        self._reservation: asyncio.Task[None] | None = None
        self._preparation: asyncio.Task[None] | None = None

    @property
    def available(self) -> bool:
        return self._next < self._end

    def take(self) -> int:
        """For those who cannot wait: raises CoordinatorError while the next block is on its way,
        as Kafka does; clients ask again."""
        if not self.available:
            self._reserve_soon()
            raise CoordinatorError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "producer ids are being reserved"
            )
        producer_id = self._next
        self._next += 1
        if self._end - self._next < SPARE_BELOW:
            if self._spare is None:
                self._reserve_soon()
            elif self._next == self._end:
                (self._next, self._end), self._spare = self._spare, None
        return producer_id

    async def next(self) -> int:
        await self.ensure()
        return self.take()

    async def ensure(self) -> None:
        """Waits until there is an id to take."""
        while not self.available:
            await asyncio.shield(self._reserve_soon())

    def prepare(self) -> None:
        """Reserves the first block now, however long that takes."""
        self._preparation = asyncio.get_running_loop().create_task(self._prepare())

    def stop(self) -> None:
        for task in (self._preparation, self._reservation):
            if task is not None:
                task.cancel()

    async def _prepare(self) -> None:
        while not self.available:
            try:
                await self.ensure()
            except CoordinatorError as error:
                log.info("no producer ids yet", extra={"error": str(error)})
                await asyncio.sleep(RETRY_S)

    def _reserve_soon(self) -> "asyncio.Task[None]":
        """One reservation at a time; if it fails, whoever asks next tries again."""
        if self._reservation is None or self._reservation.done():
            self._reservation = asyncio.get_running_loop().create_task(self._reserve())
            self._reservation.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._reservation

    async def _reserve(self) -> None:
        block = await self._metadata.allocate_producer_ids()
        if block.error.code:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, block.error.message or "")
        reserved = (block.first, block.first + block.size)
        if self.available:
            self._spare = reserved
        else:
            self._next, self._end = reserved
