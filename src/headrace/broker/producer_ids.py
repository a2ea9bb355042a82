"""Producer ids, handed out from blocks that the controller reserves: no id is given twice."""

from headrace.broker.metadata_service import MetadataService


class ProducerIds:
    """One block at a time; a block that a crash interrupts is lost, never reused."""

    def __init__(self, metadata: MetadataService, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._next = 0
        self._end = 0

    async def next(self) -> int:
        while self._next >= self._end:
            # Two callers may both come here: the later block simply replaces an unused one.
            await self._reserve()
        producer_id = self._next
        self._next += 1
        return producer_id

    async def _reserve(self) -> None:
        epoch = self._metadata.image.brokers[self._node_id].epoch
        results = await self._metadata.decide(
            lambda controller: controller.allocate_producer_ids(self._node_id, epoch)
        )
        block = results[0]
        self._next = block.first
        self._end = block.first + block.size
