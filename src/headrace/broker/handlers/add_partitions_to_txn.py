"""AddPartitionsToTxn (key 24), versions 0-5: adds partitions to a transaction.

* v2: PRODUCER_FENCED; earlier versions get INVALID_PRODUCER_EPOCH.
* v4: sent by brokers, for many transactions at once. With `verify_only` it checks that the
  partitions are in the transaction and adds nothing (KIP-890).

Up to v3 a client sends it, for its own transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
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

if TYPE_CHECKING:
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_FENCED: Final = 2
FIRST_VERSION_OF_BROKERS: Final = 4

Verdict = ErrorCode | Mapping[Partition, ErrorCode]


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
) -> Verdict | asyncio.Future[Verdict]:
    partitions = _partitions(transaction)
    problems = _invalid_partitions(broker, version, partitions)
    if problems:
        return {
            partition: problems.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED)
            for partition in partitions
        }
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
    added: Verdict = ErrorCode.NONE
    return broker.transactions.answer(
        transactional_id,
        lambda shard, now_ms: shard.add_partitions(
            transactional_id, producer, wanted, client_version, added, now_ms
        ),
        lambda error: _error_code(version, error),
    )


def _partitions(transaction: AddPartitionsToTxnTransaction) -> list[Partition]:
    return [(topic.name, index) for topic in transaction.topics for index in topic.partitions]


def _invalid_partitions(
    broker: Broker, version: int, partitions: list[Partition]
) -> dict[Partition, ErrorCode]:
    """The partitions that cannot be added, with their errors. If there is one, none is added."""
    topics = broker.metadata.image.topics
    problems = {}
    for topic, index in partitions:
        known = topics.get(topic)
        if version < FIRST_VERSION_OF_BROKERS and topic in INTERNAL_TOPICS:
            problems[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif known is None or not 0 <= index < len(known.partitions):
            problems[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return problems


def _error_code(version: int, error: CoordinatorError) -> ErrorCode:
    return fenced_error(error.code, knows_fenced=version >= FIRST_VERSION_WITH_FENCED)


async def _respond_when_decided(
    version: int,
    transactions: list[AddPartitionsToTxnTransaction],
    verdicts: list[Verdict | asyncio.Future[Verdict]],
) -> AddPartitionsToTxnResponse:
    return _response(version, transactions, [await resolve_reply(one) for one in verdicts])


def _response(
    version: int,
    transactions: list[AddPartitionsToTxnTransaction],
    verdicts: list[Verdict],
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
    transaction: AddPartitionsToTxnTransaction, verdict: Verdict
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
