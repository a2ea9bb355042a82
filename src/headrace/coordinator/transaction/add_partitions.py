"""AddPartitionsToTxn: adds partitions to a transaction, or verifies that they are in it."""

from collections.abc import Iterable

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.transaction import Partition, Transaction, TransactionState
from headrace.protocol.errors import ErrorCode


def check_producer(transaction: Transaction, producer: ProducerIdentity) -> None:
    """Raises CoordinatorError unless the transaction is this producer's and can still grow."""
    if transaction.producer_id != producer.producer_id:
        raise CoordinatorError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != producer.epoch:
        raise CoordinatorError(ErrorCode.PRODUCER_FENCED)
    if transaction.state.is_prepared:
        raise CoordinatorError(ErrorCode.CONCURRENT_TRANSACTIONS)


def with_partitions(
    transaction: Transaction, partitions: frozenset[Partition], client_version: int, now_ms: int
) -> Transaction | None:
    """The transaction with these partitions, which begins if there is none; None if it has them."""
    if transaction.state is TransactionState.ONGOING and partitions <= transaction.partitions:
        return None
    return transaction.with_partitions(partitions, client_version, now_ms)


def verify_partitions(
    transaction: Transaction, partitions: Iterable[Partition]
) -> dict[Partition, ErrorCode]:
    """For each partition, whether it is in the open transaction."""
    return {
        partition: (
            ErrorCode.NONE
            if partition in transaction.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
        )
        for partition in partitions
    }
