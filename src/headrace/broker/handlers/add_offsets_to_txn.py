"""AddOffsetsToTxn (key 25), versions 0-4: a group's offsets become part of a transaction.

v2 knows PRODUCER_FENCED. Producers of the second protocol (KIP-890) do not send it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.cluster.topology import GROUP_METADATA_TOPIC
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.transaction import V1
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_FENCED: Final = 2

Reply = AddOffsetsToTxnResponse | asyncio.Future[AddOffsetsToTxnResponse]


def handle(
    broker: Broker, context: Context, request: AddOffsetsToTxnRequest
) -> Reply | Coroutine[object, object, AddOffsetsToTxnResponse]:
    if not broker.groups.has_topic:
        # The producer comes here before it looks for the group's coordinator.
        return _create_then_add(broker, context.version, request)
    return _add(broker, context.version, request)


async def _create_then_add(
    broker: Broker, version: int, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    try:
        await broker.groups.ensure_topic()
    except CoordinatorError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    reply = _add(broker, version, request)
    return await reply if isinstance(reply, asyncio.Future) else reply


def _add(broker: Broker, version: int, request: AddOffsetsToTxnRequest) -> Reply:
    def refused(error: CoordinatorError) -> AddOffsetsToTxnResponse:
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return AddOffsetsToTxnResponse(error_code=code)

    try:
        partition = broker.groups.partition_of(request.group_id)
    except CoordinatorError as error:
        return refused(error)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    wanted = frozenset({(GROUP_METADATA_TOPIC, partition)})

    return broker.transactions.answer(
        request.transactional_id,
        lambda shard, now_ms: shard.add_partitions(
            request.transactional_id, producer, wanted, V1, AddOffsetsToTxnResponse(), now_ms
        ),
        refused,
    )
