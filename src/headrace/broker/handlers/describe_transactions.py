"""DescribeTransactions (key 65), version 0: describes transactions by transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.transaction.transaction_listing import describe
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: DescribeTransactionsRequest) -> Verdict:
    def hide_topics(response: DescribeTransactionsResponse) -> None:
        for state in response.transaction_states:
            names = (topic.topic for topic in state.topics)
            hidden = check.hidden_names(AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
            state.topics = [topic for topic in state.topics if topic.topic not in hidden]

    denied = check.filter_names(
        "transactional_ids", AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID
    )
    return check.and_change(denied, hide_topics)


def handle(
    broker: Broker, context: Context, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            _describe_transaction(broker, transactional_id)
            for transactional_id in request.transactional_ids
        ]
    )


def _describe_transaction(
    broker: Broker, transactional_id: str
) -> DescribeTransactionsTransactionState:
    try:
        if not transactional_id:
            raise CoordinatorError(ErrorCode.INVALID_REQUEST)
        return broker.transactions.read(
            transactional_id, lambda shard, _: describe(shard.find(transactional_id))
        )
    except CoordinatorError as error:
        return DescribeTransactionsTransactionState(
            error_code=error.code, transactional_id=transactional_id
        )
