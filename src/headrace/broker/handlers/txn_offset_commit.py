"""TxnOffsetCommit (key 28), versions 0-5: commits a group's offsets as part of a transaction.

* v2: leader epochs; COORDINATOR_LOAD_IN_PROGRESS.
* v3: member id and generation, so that the group fences zombies.
* v4: TRANSACTION_ABORTABLE.
* v5: the commit adds the group to the transaction (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context, resolve_reply
from headrace.broker.transactions.txn_error_codes import verification_error
from headrace.broker.transactions.txn_verification import (
    admit_group,
    group_markers,
    has_group_ended,
)
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

FIRST_VERSION_THAT_KNOWS_LOADING: Final = 2
FIRST_VERSION_THAT_KNOWS_ABORTABLE: Final = 4
FIRST_VERSION_THAT_ADDS: Final = 5

Reply = TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]


def authorize(broker: Broker, check: RequestCheck, request: TxnOffsetCommitRequest) -> Verdict:
    return (
        check.require(
            AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id
        )
        or check.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)
        or check.filter_topics(AclOperation.READ)
    )


def handle(
    broker: Broker, context: Context, request: TxnOffsetCommitRequest
) -> Reply | Coroutine[object, object, TxnOffsetCommitResponse]:
    version = context.version
    if not any(
        _partition_exists(broker, topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ):
        # Nothing to commit: the transaction is not touched.
        return _error_response(broker, version, request, ErrorCode.NONE)
    if not request.group_id:
        return _error_response(broker, version, request, ErrorCode.INVALID_GROUP_ID)
    try:
        # Before the transaction coordinator: its error may be fatal for the producer.
        broker.groups.runner_of(request.group_id)
    except CoordinatorError as error:
        return _error_response(broker, version, request, error.code)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    before = group_markers(broker, request.group_id, producer)
    verdict = admit_group(
        broker,
        request.transactional_id,
        producer,
        request.group_id,
        adds=version >= FIRST_VERSION_THAT_ADDS,
    )
    if isinstance(verdict, asyncio.Future):
        return _commit_when_verified(broker, version, request, verdict, before)
    return _commit_offsets(broker, version, request, verdict)


async def _commit_when_verified(
    broker: Broker,
    version: int,
    request: TxnOffsetCommitRequest,
    pending: asyncio.Future[ErrorCode],
    before: int,
) -> TxnOffsetCommitResponse:
    verdict = await pending
    if not verdict:
        # The transaction may have ended during the wait, so its state is checked again.
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        if broker.transactions.remote_leader_of(request.transactional_id) is None:
            verdict = await resolve_reply(
                admit_group(
                    broker, request.transactional_id, producer, request.group_id, adds=False
                )
            )
        elif has_group_ended(
            broker,
            request.group_id,
            producer,
            before,
            adds=version >= FIRST_VERSION_THAT_ADDS,
        ):
            verdict = ErrorCode.INVALID_TXN_STATE
    return await resolve_reply(_commit_offsets(broker, version, request, verdict))


def _commit_offsets(
    broker: Broker, version: int, request: TxnOffsetCommitRequest, verdict: ErrorCode
) -> Reply:
    if verdict:
        code = verification_error(
            verdict, knows_abortable=version >= FIRST_VERSION_THAT_KNOWS_ABORTABLE
        )
        return _error_response(broker, version, request, code)
    return broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.offsets.commit_in_transaction(version, request, now_ms),
        lambda error: _error_response(broker, version, request, error.code),
    )


def _partition_exists(broker: Broker, topic: str, partition: int) -> bool:
    return broker.metadata.image.partition(topic, partition) is not None


def _error_response(
    broker: Broker, version: int, request: TxnOffsetCommitRequest, code: ErrorCode
) -> TxnOffsetCommitResponse:
    """Existing partitions get `code`, others UNKNOWN_TOPIC_OR_PARTITION."""
    if (
        code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        and version < FIRST_VERSION_THAT_KNOWS_LOADING
    ):
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # old producers do not retry LOAD_IN_PROGRESS
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=code
                        if _partition_exists(broker, topic.name, partition.partition_index)
                        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
