"""Which transactional ids were idle for `transactional.id.expiration.ms`."""

from collections.abc import Iterable
from typing import Final

from headrace.coordinator.transaction.transaction import Transaction, TransactionState

_EXPIRABLE: Final = (
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)


def expired_ids(transactions: Iterable[Transaction], expiration_ms: int, now_ms: int) -> list[str]:
    """The ids without an open transaction whose last change is at least `expiration_ms` ago."""
    horizon_ms = now_ms - expiration_ms
    return [
        one.transactional_id
        for one in transactions
        if one.state in _EXPIRABLE and one.updated_ms <= horizon_ms
    ]
