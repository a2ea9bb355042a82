"""Heartbeat (key 12), versions 0-4: a member of a classic group is alive. v3 knows static members.

The answer says whether the member must join again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.request_context import RequestContext
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: HeartbeatRequest
) -> HeartbeatResponse | asyncio.Future[HeartbeatResponse]:
    caller = RequestContext(context.version)  # who it is does not matter, and this is often called
    return broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.classic.heartbeat(caller, request, now_ms),
        _refuse,
    )


def _refuse(error: CoordinatorError) -> HeartbeatResponse:
    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # As Kafka: the sessions begin when the group is loaded, so all is well.
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=error.code)
