"""AddPartitionsToTxn (key 24), versions 0-5: adds partitions to a transaction.

* v2: PRODUCER_FENCED; earlier versions get INVALID_PRODUCER_EPOCH.
* v4: sent by brokers, for many transactions at once. With `verify_only` it checks that the
  partitions are in the transaction and adds nothing (KIP-890).

Up to v3 a client sends it, for its own transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Coroutine, Mapping
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context, resolve_reply
from headrace.broker.transactions.txn_error_codes import fenced_error
from headrace.cluster.topology import INTERNAL_TOPICS
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.transaction import V1, V2, Partition
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_FENCED: Final = 2
FIRST_VERSION_OF_BROKERS: Final = 4

TxnVerdict = ErrorCode | Mapping[Partition, ErrorCode]


def authorize(broker: Broker, check: RequestCheck, request: AddPartitionsToTxnRequest) -> Verdict:
    if check.version >= FIRST_VERSION_OF_BROKERS:
        if check.access.allows_cluster(check.session, AclOperation.CLUSTER_ACTION):
            return None
        return check.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    (transaction,) = _requested_transactions(check.version, request)
    refused = check.require(
        AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transaction.transactional_id
    )
    if refused is not None:
        return refused
    names = (topic.name for topic in transaction.topics if topic.name not in INTERNAL_TOPICS)
    denied = check.denied_names(AclOperation.WRITE, AclResourceType.TOPIC, names)
    if not denied:
        return None
    verdict = _refuse_all(_partitions(transaction), broker, check.version, denied)
    return _response(check.version, [transaction], [verdict])


def handle(
    broker: Broker, context: Context, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Coroutine[object, object, AddPartitionsToTxnResponse]:
    version = context.version
    transactions = _requested_transactions(version, request)
    verdicts = [_add_or_verify(broker, version, transaction) for transaction in transactions]
    settled = [verdict for verdict in verdicts if not isinstance(verdict, asyncio.Future)]
    if len(settled) < len(verdicts):
        return _respond_when_decided(version, transactions, verdicts)
    return _response(version, transactions, settled)


def _requested_transactions(
    version: int, request: AddPartitionsToTxnRequest
) -> list[AddPartitionsToTxnTransaction]:
    if version >= FIRST_VERSION_OF_BROKERS:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def _add_or_verify(
    broker: Broker, version: int, transaction: AddPartitionsToTxnTransaction
) -> TxnVerdict | asyncio.Future[TxnVerdict]:
    partitions = _partitions(transaction)
    if any(_partition_error(broker, version, partition) for partition in partitions):
        return _refuse_all(partitions, broker, version)
    transactional_id = transaction.transactional_id
    producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        try:
            return broker.transactions.read(
                transactional_id,
                lambda shard, _: shard.verify_partitions(transactional_id, producer, partitions),
            )
        except CoordinatorError as error:
            return _error_code(version, error)
    wanted = frozenset(partitions)
    client_version = V2 if version >= FIRST_VERSION_OF_BROKERS else V1
    added: TxnVerdict = ErrorCode.NONE
    return broker.transactions.answer(
        transactional_id,
        lambda shard, now_ms: shard.add_partitions(
            transactional_id, producer, wanted, client_version, added, now_ms
        ),
        lambda error: _error_code(version, error),
    )


def _partitions(transaction: AddPartitionsToTxnTransaction) -> list[Partition]:
    return [(topic.name, index) for topic in transaction.topics for index in topic.partitions]


def _refuse_all(
    partitions: list[Partition], broker: Broker, version: int, denied: Container[str] = ()
) -> Mapping[Partition, ErrorCode]:
    """The errors if a partition cannot be added: then none is. `denied` are topics."""
    return {
        partition: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if partition[0] in denied
        else _partition_error(broker, version, partition) or ErrorCode.OPERATION_NOT_ATTEMPTED
        for partition in partitions
    }


def _partition_error(broker: Broker, version: int, partition: Partition) -> ErrorCode:
    topic, index = partition
    if version < FIRST_VERSION_OF_BROKERS and topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = broker.metadata.image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _error_code(version: int, error: CoordinatorError) -> ErrorCode:
    return fenced_error(error.code, knows_fenced=version >= FIRST_VERSION_WITH_FENCED)


async def _respond_when_decided(
    version: int,
    transactions: list[AddPartitionsToTxnTransaction],
    verdicts: list[TxnVerdict | asyncio.Future[TxnVerdict]],
) -> AddPartitionsToTxnResponse:
    return _response(version, transactions, [await resolve_reply(one) for one in verdicts])


def _response(
    version: int,
    transactions: list[AddPartitionsToTxnTransaction],
    verdicts: list[TxnVerdict],
) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=_topic_results(transaction, verdict),
        )
        for transaction, verdict in zip(transactions, verdicts, strict=True)
    ]
    if version >= FIRST_VERSION_OF_BROKERS:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def _topic_results(
    transaction: AddPartitionsToTxnTransaction, verdict: TxnVerdict
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=(
                        verdict if isinstance(verdict, int) else verdict[topic.name, index]
                    ),
                )
                for index in topic.partitions
            ],
        )
        for topic in transaction.topics
    ]
