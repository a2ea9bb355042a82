"""InitProducerId (key 22), versions 0-5: an id for an idempotent producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.dispatch import Context
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


async def handle(
    broker: Broker, context: Context, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        # There is no transaction coordinator yet. This error is final for a client, so it says
        # so at once; COORDINATOR_NOT_AVAILABLE would let it try for minutes.
        error = (
            ErrorCode.UNSUPPORTED_VERSION if request.transactional_id else ErrorCode.INVALID_REQUEST
        )
        return InitProducerIdResponse(error_code=error, producer_epoch=-1)
    # As in Kafka, a producer without transactions gets a new id whatever it had before.
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
