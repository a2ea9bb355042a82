"""EndTxn (key 26), versions 0-5: commits or aborts a transaction.

* v2: PRODUCER_FENCED; earlier versions get INVALID_PRODUCER_EPOCH.
* v5: transaction version 2 (KIP-890): the response has the producer id and epoch of the next
  transaction.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.broker.transactions.txn_error_codes import fenced_error
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_FENCED: Final = 2


def authorize(broker: Broker, check: RequestCheck, request: EndTxnRequest) -> Verdict:
    return check.require(
        AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id
    )


def handle(
    broker: Broker, context: Context, request: EndTxnRequest
) -> EndTxnResponse | asyncio.Future[EndTxnResponse]:
    version = context.version
    return broker.transactions.answer(
        request.transactional_id,
        lambda shard, now_ms: shard.end(version, request, now_ms),
        lambda error: _error_response(version, error),
    )


def _error_response(version: int, error: CoordinatorError) -> EndTxnResponse:
    code = fenced_error(error.code, knows_fenced=version >= FIRST_VERSION_WITH_FENCED)
    return EndTxnResponse(error_code=code)
