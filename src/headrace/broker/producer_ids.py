"""Producer ids, handed out from blocks that the controller reserves: no id is given twice."""

import asyncio

from headrace.broker.metadata_service import Metadata
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode


class ProducerIds:
    """One block at a time; a block that a crash interrupts is lost, never reused."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._next = 0
        self._end = 0
        self._reservation: asyncio.Task[None] | None = None

    @property
    def available(self) -> bool:
        return self._next < self._end

    def take(self) -> int:
        """For those who cannot wait: raises CoordinatorError while the next block is on its way,
        as Kafka does; clients ask again."""
        if not self.available:
            if self._reservation is None or self._reservation.done():
                self._reservation = asyncio.get_running_loop().create_task(self._reserve())
                # If it fails, whoever asks next tries again.
                self._reservation.add_done_callback(
                    lambda task: task.cancelled() or task.exception()
                )
            raise CoordinatorError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "producer ids are being reserved"
            )
        producer_id = self._next
        self._next += 1
        return producer_id

    async def next(self) -> int:
        await self.ensure()
        return self.take()

    async def ensure(self) -> None:
        """Waits until there is an id to take."""
        while not self.available:
            # Two callers may both come here: the later block simply replaces an unused one.
            await self._reserve()

    async def _reserve(self) -> None:
        block = await self._metadata.allocate_producer_ids()
        if block.error.code:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, block.error.message or "")
        self._next = block.first
        self._end = block.first + block.size
