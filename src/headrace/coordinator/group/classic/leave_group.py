"""LeaveGroup: members leave, or an operator removes static members by their instance ids."""

from collections.abc import Sequence

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.classic.rebalance import Rebalances
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.leave_group import MemberIdentity, MemberResponse


class ClassicLeaveGroup:
    """Decides LeaveGroup requests of classic groups."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def leave(
        self,
        group: ClassicGroup,
        members: Sequence[MemberIdentity],
        result: ResultBuilder,
        now_ms: int,
    ) -> list[MemberResponse]:
        """One response per member; all departures together cause one rebalance."""
        answers = [self._leave_one(group, one, result) for one in members]
        left = any(answer.error_code == ErrorCode.NONE for answer in answers)
        if left and group.state is not ClassicState.EMPTY:
            self._rebalances.prepare_or_complete(group, result, now_ms)
        return answers

    def _leave_one(
        self, group: ClassicGroup, identity: MemberIdentity, result: ResultBuilder
    ) -> MemberResponse:
        answer = MemberResponse(
            member_id=identity.member_id, group_instance_id=identity.group_instance_id
        )
        try:
            self._rebalances.remove_member(group, _member_id(group, identity), result)
        except CoordinatorError as error:
            answer.error_code = error.code
        return answer


def _member_id(group: ClassicGroup, identity: MemberIdentity) -> str:
    """The member id of the request; without one, the member that has the instance id."""
    if identity.member_id in group.pending_joins:
        return identity.member_id
    if identity.member_id:
        group.check_member(identity.member_id, identity.group_instance_id)
        return identity.member_id
    instance_id = identity.group_instance_id
    if instance_id is None or instance_id not in group.instances:
        raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group.instances[instance_id]
