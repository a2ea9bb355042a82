"""AddOffsetsToTxn (key 25), versions 0-4: adds a group's offsets partition to a transaction.

* v2: PRODUCER_FENCED; earlier versions get INVALID_PRODUCER_EPOCH.

Producers of transaction version 2 (KIP-890) do not send this request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context, resolve_reply
from headrace.broker.transactions.txn_error_codes import fenced_error
from headrace.cluster.topology import GROUP_METADATA_TOPIC
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.transaction import V1
from headrace.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_FENCED: Final = 2

Reply = AddOffsetsToTxnResponse | asyncio.Future[AddOffsetsToTxnResponse]


def authorize(broker: Broker, check: RequestCheck, request: AddOffsetsToTxnRequest) -> Verdict:
    return check.require(
        AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id
    ) or check.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)


def handle(
    broker: Broker, context: Context, request: AddOffsetsToTxnRequest
) -> Reply | Coroutine[object, object, AddOffsetsToTxnResponse]:
    if not broker.groups.has_topic:
        # The producer sends this request before FindCoordinator of the group.
        return _create_topic_then_add(broker, context.version, request)
    return _add_offsets_partition(broker, context.version, request)


async def _create_topic_then_add(
    broker: Broker, version: int, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    try:
        await broker.groups.ensure_topic()
    except CoordinatorError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    return await resolve_reply(_add_offsets_partition(broker, version, request))


def _add_offsets_partition(broker: Broker, version: int, request: AddOffsetsToTxnRequest) -> Reply:
    def refused(error: CoordinatorError) -> AddOffsetsToTxnResponse:
        code = fenced_error(error.code, knows_fenced=version >= FIRST_VERSION_WITH_FENCED)
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
