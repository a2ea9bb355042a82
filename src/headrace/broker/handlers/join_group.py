"""JoinGroup (key 11), versions 0-9: joins a classic group or its next generation.

* v1: rebalance timeout.
* v4: the first response assigns the member id (KIP-394).
* v5: static members (KIP-345).
* v7: the response has the protocol type.
* v9: the response can make the leader skip the assignment (KIP-814).

The response may wait for the other members.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: JoinGroupRequest) -> Verdict:
    return check.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)


def handle(
    broker: Broker, context: Context, request: JoinGroupRequest
) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
    caller = context.request_context()

    def refuse(error: CoordinatorError) -> JoinGroupResponse:
        return JoinGroupResponse(error_code=error.code, member_id=request.member_id)

    return broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.classic.join(caller, request, now_ms),
        refuse,
    )
