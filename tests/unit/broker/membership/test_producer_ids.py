"""Producer ids are unique, and the next block arrives before the last one is used up."""

import asyncio

import pytest

from headrace.broker.membership.producer_ids import SPARE_BELOW, ProducerIds
from headrace.controller.producer_id_blocks import ProducerIdBlock
from headrace.controller.result import ApiError
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode

BLOCK = 1000


class Controller:
    """Hands out blocks while it can be reached."""

    def __init__(self) -> None:
        self.reachable = True
        self.reserved = 0

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        await asyncio.sleep(0)
        if not self.reachable:
            return ProducerIdBlock(error=ApiError(ErrorCode.REQUEST_TIMED_OUT))
        first = self.reserved * BLOCK
        self.reserved += 1
        return ProducerIdBlock(first, BLOCK)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def ids_of(controller: Controller) -> ProducerIds:
    return ProducerIds(controller)  # type: ignore[arg-type]


def test_the_next_block_is_requested_before_the_last_one_is_used_up() -> None:
    async def test() -> None:
        controller = Controller()
        ids = ids_of(controller)
        taken = [await ids.wait_for_next_id()]
        while len(taken) < 3 * BLOCK:
            taken.append(ids.next_id())  # it never has to wait
            if len(taken) % SPARE_BELOW == 0:
                await settle()
        assert taken == list(range(3 * BLOCK))

    asyncio.run(test())


def test_ids_come_from_the_local_block_and_without_one_the_request_fails() -> None:
    async def test() -> None:
        controller = Controller()
        ids = ids_of(controller)
        ids.prepare()
        await settle()
        controller.reachable = False
        assert [ids.next_id() for _ in range(BLOCK)] == list(range(BLOCK))
        with pytest.raises(CoordinatorError) as refused:
            await ids.wait_for_next_id()
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        controller.reachable = True
        assert await ids.wait_for_next_id() == BLOCK

    asyncio.run(test())
