"""OffsetDelete (key 47), version 0: deletes a group's offsets of topics without a subscription."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: OffsetDeleteRequest) -> Verdict:
    return check.require(
        AclOperation.DELETE, AclResourceType.GROUP, request.group_id
    ) or check.filter_topics(AclOperation.READ, group_errors_first=True)


def handle(
    broker: Broker, context: Context, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | asyncio.Future[OffsetDeleteResponse]:
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    return broker.groups.answer(
        request.group_id, lambda shard, _: shard.offsets.delete(request), _error_response
    )


def _error_response(error: CoordinatorError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error.code)
