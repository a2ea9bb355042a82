"""ShareGroupHeartbeat (key 76), version 1: joins, keeps or leaves a share group (KIP-932).

The response to a join waits until the state of the subscribed partitions is initialized, so that
it can assign partitions at once. In Kafka the member gets them with its next heartbeat, five
seconds later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context, resolve_reply
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.request_context import RequestContext
from headrace.coordinator.group.modern.modern_group import JOINING_EPOCH
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

MAX_WAIT_FOR_STATE_S: Final = 2.0

Answer = ShareGroupHeartbeatResponse | asyncio.Future[ShareGroupHeartbeatResponse]


def authorize(broker: Broker, check: RequestCheck, request: ShareGroupHeartbeatRequest) -> Verdict:
    refused = check.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    if refused is not None:
        return refused
    names = request.subscribed_topic_names or ()
    if check.denied_names(AclOperation.DESCRIBE, AclResourceType.TOPIC, names):
        return check.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def handle(
    broker: Broker, context: Context, request: ShareGroupHeartbeatRequest
) -> Answer | Coroutine[object, object, ShareGroupHeartbeatResponse]:
    if not broker.coordinators.serves_share_groups:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    caller = context.request_context()
    first = _heartbeat(broker, caller, request)
    if request.member_epoch != JOINING_EPOCH:
        return first
    if isinstance(first, asyncio.Future) or _is_initializing_state(broker, request):
        return _join_when_initialized(broker, caller, request, first)
    return first


def _heartbeat(
    broker: Broker, caller: RequestContext, request: ShareGroupHeartbeatRequest
) -> Answer:
    return broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.share.heartbeat(caller, request, now_ms),
        _error_response,
    )


def _is_initializing_state(broker: Broker, request: ShareGroupHeartbeatRequest) -> bool:
    return broker.coordinators.share_group_states.starting(request.group_id) is not None


async def _join_when_initialized(
    broker: Broker, caller: RequestContext, request: ShareGroupHeartbeatRequest, first: Answer
) -> ShareGroupHeartbeatResponse:
    response = await resolve_reply(first)
    starting = broker.coordinators.share_group_states.starting(request.group_id)
    if response.error_code or starting is None:
        return response
    await asyncio.wait([starting], timeout=MAX_WAIT_FOR_STATE_S)
    return await resolve_reply(_heartbeat(broker, caller, request))


def _error_response(error: CoordinatorError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)
