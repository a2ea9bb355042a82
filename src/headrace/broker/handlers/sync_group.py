"""SyncGroup (key 14), versions 0-5: the leader sends the assignment, members fetch theirs.

* v3: static members (KIP-345).
* v5: protocol type and name, which must match the group's.

The response may wait for the leader.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_PROTOCOL: Final = 5


def authorize(broker: Broker, check: RequestCheck, request: SyncGroupRequest) -> Verdict:
    if _lacks_protocol(check.version, request):
        return None  # an error that Kafka reports first
    return check.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)


def handle(
    broker: Broker, context: Context, request: SyncGroupRequest
) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
    if _lacks_protocol(context.version, request):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    caller = context.request_context()
    return broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.classic.sync(caller, request, now_ms),
        _error_response,
    )


def _lacks_protocol(version: int, request: SyncGroupRequest) -> bool:
    return version >= FIRST_VERSION_WITH_PROTOCOL and (
        request.protocol_type is None or request.protocol_name is None
    )


def _error_response(error: CoordinatorError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error.code)
