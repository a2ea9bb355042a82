"""InitProducerId: a producer claims its transactional id.

A new producer gets a higher epoch, which fences the producer that had the id before. A producer
that sends its producer id and epoch continues after an error (KIP-360): it gets the next epoch, or,
if the response was lost, the epoch in that response. It is refused if another producer has claimed
the id in between.
"""

from collections.abc import Callable

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.transaction import (
    LAST_CLIENT_EPOCH,
    NEVER_MS,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
)
from headrace.coordinator.transaction.transaction_config import TransactionConfig
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest


def timeout_of(request: InitProducerIdRequest, config: TransactionConfig) -> int:
    """The timeout of the producer's transactions; raises Kafka's errors for an invalid one."""
    if not request.transactional_id:
        raise CoordinatorError(ErrorCode.INVALID_REQUEST)
    if request.enable2_pc and not config.two_phase_commit:
        raise CoordinatorError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "two-phase commit is off (transaction.two.phase.commit.enable)",
        )
    if request.keep_prepared_txn:
        raise CoordinatorError(ErrorCode.UNSUPPORTED_VERSION)
    if request.enable2_pc:
        return NEVER_MS
    if not 0 < request.transaction_timeout_ms <= config.max_timeout_ms:
        raise CoordinatorError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"a transaction may take up to {config.max_timeout_ms} ms (transaction.max.timeout.ms)",
        )
    return request.transaction_timeout_ms


def expected_of(request: InitProducerIdRequest) -> ProducerIdentity | None:
    """The producer id and epoch that the request continues from."""
    unset = (request.producer_id == NO_PRODUCER_ID, request.producer_epoch == NO_EPOCH)
    if all(unset):
        return None
    if any(unset):
        raise CoordinatorError(ErrorCode.INVALID_REQUEST)
    return ProducerIdentity(request.producer_id, request.producer_epoch)


def check_expected(transaction: Transaction, expected: ProducerIdentity | None) -> None:
    """Raises if another producer has claimed the id."""
    if (
        expected is None
        or transaction.epoch == NO_EPOCH
        or expected.producer_id == transaction.producer_id
        or (
            expected.producer_id == transaction.previous_producer_id
            and expected.epoch >= LAST_CLIENT_EPOCH
        )
    ):
        return
    raise CoordinatorError(ErrorCode.PRODUCER_FENCED)


def renewed(
    transaction: Transaction,
    expected: ProducerIdentity | None,
    timeout_ms: int,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> Transaction:
    """The transactional id without a transaction and with the producer's next epoch."""
    epoch = transaction.epoch
    if expected is not None and epoch not in (NO_EPOCH, expected.epoch):
        if expected.epoch != transaction.last_epoch:
            raise CoordinatorError(ErrorCode.PRODUCER_FENCED)
        # A retry: another producer would have cleared `last_epoch`.
        return transaction.renewed(
            transaction.producer_id, epoch, transaction.last_epoch, timeout_ms, now_ms
        )
    last_epoch = NO_EPOCH if expected is None else epoch
    if transaction.is_exhausted:
        return transaction.renewed(new_producer_id(), 0, last_epoch, timeout_ms, now_ms)
    return transaction.renewed(transaction.producer_id, epoch + 1, last_epoch, timeout_ms, now_ms)
