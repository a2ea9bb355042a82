"""ListTransactions (key 66), versions 0-2: lists the transactions that this broker coordinates.

* v1: filter by duration.
* v2: filter by a pattern of the transactional id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.transaction.transaction_listing import TransactionFilter
from headrace.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: ListTransactionsRequest) -> Verdict:
    def hide(response: ListTransactionsResponse) -> None:
        hidden = check.hidden_names(
            AclOperation.DESCRIBE,
            AclResourceType.TRANSACTIONAL_ID,
            (state.transactional_id for state in response.transaction_states),
        )
        response.transaction_states = [
            state for state in response.transaction_states if state.transactional_id not in hidden
        ]

    return hide


def handle(
    broker: Broker, context: Context, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    try:
        wanted = TransactionFilter(request)
        found = broker.transactions.read_all(
            lambda shard, now_ms: wanted.select(shard.transactions.values(), now_ms)
        )
    except CoordinatorError as error:
        return ListTransactionsResponse(error_code=error.code)
    return ListTransactionsResponse(
        unknown_state_filters=wanted.unknown_states,
        transaction_states=[one for shard in found for one in shard],
    )
