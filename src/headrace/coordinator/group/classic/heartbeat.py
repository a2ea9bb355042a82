"""A heartbeat in a classic group. It is the most frequent request, so it writes no record."""

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(
    group: ClassicGroup, request: HeartbeatRequest
) -> CoordinatorResult[HeartbeatResponse]:
    """Restarts the session timeout of the member, and reports a rebalance in its join phase."""
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise CoordinatorError(ErrorCode.ILLEGAL_GENERATION)
    code = ErrorCode.NONE
    if group.state is ClassicState.PREPARING_REBALANCE:
        code = ErrorCode.REBALANCE_IN_PROGRESS
    return CoordinatorResult(HeartbeatResponse(error_code=code), timers=member.session)
