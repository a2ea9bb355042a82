"""ConsumerGroupHeartbeat (key 68), versions 0-1: joins, keeps or leaves a consumer group (KIP-848).

The member reports the partitions that it owns and receives its assignment.

* v1: the client generates its member id and may subscribe by pattern.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(
    broker: Broker, check: RequestCheck, request: ConsumerGroupHeartbeatRequest
) -> Verdict:
    refused = check.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    if refused is not None:
        return refused
    names = request.subscribed_topic_names or ()
    if check.denied_names(AclOperation.DESCRIBE, AclResourceType.TOPIC, names):
        return check.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def handle(
    broker: Broker, context: Context, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | asyncio.Future[ConsumerGroupHeartbeatResponse]:
    if not broker.coordinators.serves_consumer_groups:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    caller = context.request_context()
    return broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.consumer.heartbeat(caller, request, now_ms),
        _error_response,
    )


def _error_response(error: CoordinatorError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=error.code, error_message=error.message or None
    )
