"""InitProducerId (key 22), versions 0-5: an id and epoch for a producer.

v3 lets a producer go on from the id and epoch it has (KIP-360), v4 knows PRODUCER_FENCED, v5
TRANSACTION_ABORTABLE. v6 (two-phase commit) is not stable in Kafka either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_FENCED: Final = 4

Reply = InitProducerIdResponse | asyncio.Future[InitProducerIdResponse]


def handle(
    broker: Broker, context: Context, request: InitProducerIdRequest
) -> Reply | Coroutine[object, object, InitProducerIdResponse]:
    if not broker.producer_ids.available:
        return _when_there_are_ids(broker, context, request)
    return _init(broker, context, request)


async def _when_there_are_ids(
    broker: Broker, context: Context, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    try:
        await broker.producer_ids.ensure()
    except CoordinatorError as error:
        return _refused(context.version, error)
    reply = _init(broker, context, request)
    return await reply if isinstance(reply, asyncio.Future) else reply


def _init(broker: Broker, context: Context, request: InitProducerIdRequest) -> Reply:
    if request.transactional_id is None:
        # As in Kafka, a producer without transactions gets a new id whatever it had before.
        return InitProducerIdResponse(producer_id=broker.producer_ids.take(), producer_epoch=0)
    if not request.transactional_id:
        return _refused(context.version, CoordinatorError(ErrorCode.INVALID_REQUEST))
    return broker.transactions.answer(
        request.transactional_id,
        lambda shard, now_ms: shard.init_producer_id(request, now_ms),
        lambda error: _refused(context.version, error),
    )


def _refused(version: int, error: CoordinatorError) -> InitProducerIdResponse:
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
