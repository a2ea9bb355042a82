"""Requests of tools about transactions: ListTransactions and DescribeTransactions."""

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.transaction.transaction import Transaction, TransactionState
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_transactions import (
    DescribeTransactionsTopicData,
    DescribeTransactionsTransactionState,
)
from headrace.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsTransactionState,
)

_STATES = {state.title: state for state in TransactionState}


class _Pattern(Protocol):
    def fullmatch(self, text: str) -> object: ...


class TransactionFilter:
    """One ListTransactions request; the same for every shard. Raises CoordinatorError."""

    def __init__(self, request: ListTransactionsRequest) -> None:
        self.unknown_states = [name for name in request.state_filters if name not in _STATES]
        self._states: Collection[TransactionState] | None = None
        if request.state_filters:
            self._states = {_STATES[name] for name in request.state_filters if name in _STATES}
        self._producer_ids = frozenset(request.producer_id_filters)
        self._duration_ms = request.duration_filter
        self._matches = _matcher(request.transactional_id_pattern)

    def select(
        self, transactions: Iterable[Transaction], now_ms: int
    ) -> list[ListTransactionsTransactionState]:
        return [
            ListTransactionsTransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.title,
            )
            for one in transactions
            if self._wants(one, now_ms)
        ]

    def _wants(self, one: Transaction, now_ms: int) -> bool:
        return (
            (not self._producer_ids or one.producer_id in self._producer_ids)
            and (self._states is None or one.state in self._states)
            and (self._duration_ms < 0 or now_ms - one.started_ms > self._duration_ms)
            and bool(self._matches(one.transactional_id))
        )


def describe(one: Transaction) -> DescribeTransactionsTransactionState:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(one.partitions):
        topics.setdefault(topic, []).append(index)
    return DescribeTransactionsTransactionState(
        transactional_id=one.transactional_id,
        transaction_state=one.state.title,
        transaction_timeout_ms=one.timeout_ms,
        transaction_start_time_ms=one.started_ms,
        producer_id=one.producer_id,
        producer_epoch=one.epoch,
        topics=[
            DescribeTransactionsTopicData(topic=topic, partitions=indexes)
            for topic, indexes in topics.items()
        ],
    )


def _matcher(pattern: str | None) -> Callable[[str], object]:
    """RE2, as in Kafka: safe on hostile patterns. The whole id must match."""
    if not pattern:
        return lambda transactional_id: True
    import re2  # slow to import, and rarely needed

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: _Pattern = re2.compile(pattern, options=options)
    except re2.error as error:
        raise CoordinatorError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Transaction ID pattern `{pattern}` is not a valid regular expression: {error}.",
        ) from error
    return compiled.fullmatch
