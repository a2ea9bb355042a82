"""LeaveGroup (key 13), versions 0-5: removes members from a classic group.

* v3: many members in one request, static ones by their group instance ids.
* v5: reasons.

Up to v2 the request removes the member that sends it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import CoordinatorResult
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker
    from headrace.coordinator.group.group_shard import GroupShard

FIRST_VERSION_WITH_MANY_MEMBERS: Final = 3


def authorize(broker: Broker, check: RequestCheck, request: LeaveGroupRequest) -> Verdict:
    return check.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)


def handle(
    broker: Broker, context: Context, request: LeaveGroupRequest
) -> LeaveGroupResponse | asyncio.Future[LeaveGroupResponse]:
    caller = context.request_context()
    many = context.version >= FIRST_VERSION_WITH_MANY_MEMBERS
    if not many:
        request.members = [MemberIdentity(member_id=request.member_id)]

    def decide(shard: GroupShard, now_ms: int) -> CoordinatorResult[LeaveGroupResponse]:
        result: CoordinatorResult[LeaveGroupResponse] = shard.classic.leave(caller, request, now_ms)
        answer = result.answer
        if not many and isinstance(answer, LeaveGroupResponse):
            # Up to v2 the error of the one member is the error of the response.
            answer.error_code = answer.members[0].error_code
            answer.members = []
        return result

    def refuse(error: CoordinatorError) -> LeaveGroupResponse:
        if many and error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            return _all_members_unknown(request)  # the group does not exist
        return LeaveGroupResponse(error_code=error.code)

    return broker.groups.answer(request.group_id, decide, refuse)


def _all_members_unknown(request: LeaveGroupRequest) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID,
            )
            for one in request.members
        ]
    )
