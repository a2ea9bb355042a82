"""InitProducerId (key 22), versions 0-5: assigns a producer id and epoch.

* v3: the producer may present its current id and epoch, and gets the next epoch (KIP-360).
* v4: PRODUCER_FENCED; earlier versions get INVALID_PRODUCER_EPOCH.
* v5: TRANSACTION_ABORTABLE.

v6 (two-phase commit) is not served; it is not stable in Kafka either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context, resolve_reply
from headrace.broker.transactions.txn_error_codes import fenced_error
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_FENCED: Final = 4

Reply = InitProducerIdResponse | asyncio.Future[InitProducerIdResponse]


def authorize(broker: Broker, check: RequestCheck, request: InitProducerIdRequest) -> Verdict:
    if request.transactional_id is not None:
        return check.require(
            AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id
        )
    access, session = check.access, check.session
    if access.shows_cluster(session, AclOperation.IDEMPOTENT_WRITE) or access.allows_any(
        session, AclOperation.WRITE, AclResourceType.TOPIC
    ):
        return None
    return check.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def handle(
    broker: Broker, context: Context, request: InitProducerIdRequest
) -> Reply | Coroutine[object, object, InitProducerIdResponse]:
    if not broker.producer_ids.available:
        return _allocate_ids_then_init(broker, context, request)
    return _init_producer_id(broker, context, request)


async def _allocate_ids_then_init(
    broker: Broker, context: Context, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    try:
        await broker.producer_ids.ensure_available()
    except CoordinatorError as error:
        return _error_response(context.version, error)
    return await resolve_reply(_init_producer_id(broker, context, request))


def _init_producer_id(broker: Broker, context: Context, request: InitProducerIdRequest) -> Reply:
    if request.transactional_id is None:
        # As in Kafka, an idempotent producer always gets a new id, even if it presents one.
        return InitProducerIdResponse(producer_id=broker.producer_ids.next_id(), producer_epoch=0)
    if not request.transactional_id:
        return _error_response(context.version, CoordinatorError(ErrorCode.INVALID_REQUEST))
    return broker.transactions.answer(
        request.transactional_id,
        lambda shard, now_ms: shard.init_producer_id(request, now_ms),
        lambda error: _error_response(context.version, error),
    )


def _error_response(version: int, error: CoordinatorError) -> InitProducerIdResponse:
    code = fenced_error(error.code, knows_fenced=version >= FIRST_VERSION_WITH_FENCED)
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
