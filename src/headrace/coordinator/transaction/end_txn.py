"""EndTxn: commits or aborts a transaction, in both protocol versions.

In version 1 the epoch stays, so a retried EndTxn is recognised by the state alone. In version 2
(KIP-890) every end bumps the epoch: no request of the ended transaction can be mistaken for one of
the next, and a retry is one epoch behind. A producer of version 2 may also abort a transaction that
has no partitions.
"""

from collections.abc import Callable

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.transaction import (
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    V1,
    V2,
    Transaction,
    TransactionState,
)
from headrace.protocol.errors import ErrorCode


def end_v1(
    transaction: Transaction, producer: ProducerIdentity, *, commit: bool, now_ms: int
) -> Transaction | None:
    """The decided transaction, or None if it has already ended with the same outcome."""
    if transaction.producer_id != producer.producer_id:
        raise CoordinatorError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != producer.epoch:
        raise CoordinatorError(ErrorCode.PRODUCER_FENCED)
    match transaction.state:
        case TransactionState.ONGOING:
            return transaction.decided(
                commit=commit,
                epoch=transaction.epoch,
                last_epoch=transaction.last_epoch,
                client_version=V1,
                now_ms=now_ms,
            )
        case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT:
            _check_same_end(transaction, commit=commit)
            return None
        case _:
            raise _not_now(transaction, commit=commit)


def end_v2(
    transaction: Transaction,
    producer: ProducerIdentity,
    new_producer_id: Callable[[], int],
    *,
    commit: bool,
    now_ms: int,
) -> Transaction | None:
    """Like `end_v1`. While markers are being written the answer is always CONCURRENT_TRANSACTIONS,
    as in Kafka: the request may end the next transaction, whose producer must not get
    PRODUCER_FENCED."""
    if transaction.state.is_prepared:
        raise CoordinatorError(ErrorCode.CONCURRENT_TRANSACTIONS)
    retries_rotation = (
        transaction.previous_producer_id == producer.producer_id
        and producer.epoch == LAST_CLIENT_EPOCH
        and transaction.epoch == 0
    )
    retries = transaction.epoch == producer.epoch + 1 or retries_rotation
    if transaction.producer_id != producer.producer_id and not retries_rotation:
        raise CoordinatorError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    ended = transaction.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if producer.epoch != transaction.epoch and not (ended and retries):
        raise CoordinatorError(ErrorCode.PRODUCER_FENCED)
    match transaction.state:
        case TransactionState.ONGOING:
            pass
        case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT if retries:
            _check_same_end(transaction, commit=commit)
            return None
        case (
            TransactionState.EMPTY
            | TransactionState.COMPLETE_COMMIT
            | TransactionState.COMPLETE_ABORT
        ) if not commit:
            pass  # nothing was written, but the epoch is bumped
        case _:
            raise _not_now(transaction, commit=commit)
    return _decided_v2(transaction, new_producer_id, commit=commit, now_ms=now_ms)


def fenced(
    transaction: Transaction, version: int, new_producer_id: Callable[[], int], now_ms: int
) -> Transaction:
    """The coordinator aborts an open transaction: its producer exceeded the timeout, or another
    producer claims the id. The epoch is bumped, so that the producer gets an error."""
    if version >= V2:
        return _decided_v2(transaction, new_producer_id, commit=False, now_ms=now_ms)
    return transaction.decided(
        commit=False,
        epoch=min(transaction.epoch + 1, MAX_EPOCH),
        last_epoch=NO_EPOCH,
        client_version=V1,
        now_ms=now_ms,
    )


def _decided_v2(
    transaction: Transaction, new_producer_id: Callable[[], int], *, commit: bool, now_ms: int
) -> Transaction:
    return transaction.decided(
        commit=commit,
        epoch=min(transaction.epoch + 1, MAX_EPOCH),
        last_epoch=transaction.epoch,
        client_version=V2,
        now_ms=now_ms,
        next_producer_id=new_producer_id() if transaction.is_exhausted else NO_PRODUCER_ID,
    )


def _check_same_end(transaction: Transaction, *, commit: bool) -> None:
    if commit is not (transaction.state is TransactionState.COMPLETE_COMMIT):
        raise _not_now(transaction, commit=commit)


def _not_now(transaction: Transaction, *, commit: bool) -> CoordinatorError:
    if transaction.state.is_prepared and commit is transaction.has_decided_to_commit:
        return CoordinatorError(ErrorCode.CONCURRENT_TRANSACTIONS)
    wanted = "commit" if commit else "abort"
    return CoordinatorError(
        ErrorCode.INVALID_TXN_STATE, f"cannot {wanted} in state {transaction.state.title}"
    )
