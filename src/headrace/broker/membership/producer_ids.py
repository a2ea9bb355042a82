"""Producer ids, from blocks that the controller reserves: no id is assigned twice.

The next block is requested before the last one is used up. A cluster member reserves its first
block at startup, so that it can serve new producers while the metadata store, which every
reservation needs, is unreachable.
"""

import asyncio
import logging
from typing import Final

from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.coordinator.common.errors import CoordinatorError
from headrace.failure_log import FailureLog
from headrace.protocol.errors import ErrorCode

log = logging.getLogger(__package__)

SPARE_BELOW: Final = 100  # ids left: Kafka also requests more at a tenth of a block
RETRY_S: Final = 1.0


class ProducerIds:
    """The current block and a spare one; a crash loses what is left of them, ids are never
    reused."""

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

    def next_id(self) -> int:
        """The next id, without waiting: raises CoordinatorError while the next block is being
        reserved, as Kafka does; clients retry."""
        if not self.available:
            self._start_reservation()
            raise CoordinatorError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "producer ids are being reserved"
            )
        producer_id = self._next
        self._next += 1
        if self._end - self._next < SPARE_BELOW:
            if self._spare is None:
                self._start_reservation()
            elif self._next == self._end:
                (self._next, self._end), self._spare = self._spare, None
        return producer_id

    async def wait_for_next_id(self) -> int:
        await self.ensure_available()
        return self.next_id()

    async def ensure_available(self) -> None:
        """Waits until an id is available."""
        while not self.available:
            await asyncio.shield(self._start_reservation())

    def prepare(self) -> None:
        """Reserves the first block in the background."""
        self._preparation = asyncio.get_running_loop().create_task(self._reserve_first_block())

    def stop(self) -> None:
        for task in (self._preparation, self._reservation):
            if task is not None:
                task.cancel()

    async def _reserve_first_block(self) -> None:
        failures = FailureLog(log)
        while not self.available:
            try:
                await self.ensure_available()
            except CoordinatorError as error:
                failures.failed(
                    logging.INFO,
                    "cannot reserve producer ids, retrying in %g s",
                    RETRY_S,
                    reason=str(error),
                )
                await asyncio.sleep(RETRY_S)

    def _start_reservation(self) -> "asyncio.Task[None]":
        """Runs one reservation at a time; if it fails, the next request for an id starts
        another."""
        if self._reservation is None or self._reservation.done():
            self._reservation = asyncio.get_running_loop().create_task(self._reserve_block())
            self._reservation.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._reservation

    async def _reserve_block(self) -> None:
        block = await self._metadata.allocate_producer_ids()
        if block.error.code:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, block.error.message or "")
        reserved = (block.first, block.first + block.size)
        if self.available:
            self._spare = reserved
        else:
            self._next, self._end = reserved
