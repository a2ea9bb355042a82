"""Heartbeat (key 12), versions 0-4: keeps a member of a classic group alive.

* v3: static members (KIP-345).

The error code of the response asks the member to rejoin.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.request_context import RequestContext
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: HeartbeatRequest) -> Verdict:
    return check.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)


def handle(
    broker: Broker, context: Context, request: HeartbeatRequest
) -> HeartbeatResponse | asyncio.Future[HeartbeatResponse]:
    # The shard needs only the version, and heartbeats are too frequent for a full context.
    caller = RequestContext(context.version)
    return broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.classic.heartbeat(caller, request, now_ms),
        _error_response,
    )


def _error_response(error: CoordinatorError) -> HeartbeatResponse:
    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # As in Kafka: sessions start when the group has been loaded, so the member stays alive.
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=error.code)
