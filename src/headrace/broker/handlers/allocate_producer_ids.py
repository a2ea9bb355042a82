"""AllocateProducerIds (key 67), version 0: reserves a block of producer ids for one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.errors import NotController, require_active
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


async def handle(
    broker: Broker, context: Context, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    try:
        active_controller = require_active(broker.active_controller)
        decided = await active_controller.decide(
            lambda controller: controller.allocate_producer_ids(
                request.broker_id, request.broker_epoch
            )
        )
    except NotController:
        return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    block = decided.results[0]
    return AllocateProducerIdsResponse(
        error_code=block.error.code, producer_id_start=block.first, producer_id_len=block.size
    )
