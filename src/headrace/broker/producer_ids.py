"""Producer ids, handed out from blocks that the controller reserves: no id is given twice."""

import asyncio

from headrace.broker.metadata_service import MetadataService
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode


class ProducerIds:
    """One block at a time; a block that a crash interrupts is lost, never reused."""

    def __init__(self, metadata: MetadataService, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id
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
        epoch = self._metadata.image.brokers[self._node_id].epoch
        results = await self._metadata.decide(
            lambda controller: controller.allocate_producer_ids(self._node_id, epoch)
        )
        block = results[0]
        self._next = block.first
        self._end = block.first + block.size
