"""EndTxn: which end a transaction may take, in both protocol versions.

In version 1 the epoch stays, so a retried EndTxn is recognised by the state alone. In version 2
(KIP-890) every end raises the epoch: no request of the ended transaction can be taken for one of
the next, and a retry is one epoch behind. A producer of version 2 may also abort a transaction of
which nothing arrived.
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
    """The decided transaction, or None if it has ended just so already."""
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
    """As `end_v1`.

    While markers are on their way the answer is always to try again, as in Kafka: it may be the
    next transaction that ends, whose producer must not be told that it is fenced.
    """
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
            pass  # nothing was written; the epoch rises all the same
        case _:
            raise _not_now(transaction, commit=commit)
    return _decided_v2(transaction, new_producer_id, commit=commit, now_ms=now_ms)


def fenced(
    transaction: Transaction, version: int, new_producer_id: Callable[[], int], now_ms: int
) -> Transaction:
    """The coordinator itself aborts an open transaction: its producer was silent for too long, or
    another one takes over. The epoch rises, so the producer hears of it."""
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
