"""A static member that returns under a new id (KIP-345)."""

from typing import Final

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import Deferred
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.classic.group_record import group_record
from headrace.coordinator.group.classic.join_context import JoinAnswer, JoinContext
from headrace.coordinator.group.classic.member import ClassicMember
from headrace.coordinator.group.classic.rebalance import Rebalances
from headrace.coordinator.group.classic.responses import join_error, join_response, sync_error
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupResponse

FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT: Final = 9
"""From this version on, the response can make a returning leader skip the assignment (KIP-814)."""


class StaticMemberReplacement:
    """Replaces the process of a static member by a new one with the same instance id."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def replace(self, joining: JoinContext, old: ClassicMember, member_id: str) -> JoinAnswer:
        """Replaces the member. A stable group keeps the assignment of the old process, unless the
        members would now select another protocol. In all other cases the new process rejoins like
        any member."""
        group, result = joining.group, joining.result
        led = group.leader
        new = joining.member(member_id)
        new.assignment = old.assignment
        _fence(group, old, result)
        group.replace(old, new)
        result.cancel_timer(old.session_timer)
        self._rebalances.refresh_session(new, result)
        if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol:
            return _continue(joining, old, new, led)
        deferred: Deferred[JoinGroupResponse] = Deferred()
        group.set_joining(new, deferred)
        self._rebalances.prepare_or_complete(group, result, joining.now_ms)
        return deferred


def _fence(group: ClassicGroup, old: ClassicMember, result: ResultBuilder) -> None:
    """Fails the waiting requests of the old process with FENCED_INSTANCE_ID."""
    result.complete(
        group.set_joining(old, None), join_error(ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    )
    syncing, old.syncing = old.syncing, None
    result.complete(syncing, sync_error(ErrorCode.FENCED_INSTANCE_ID))


def _continue(
    joining: JoinContext, old: ClassicMember, new: ClassicMember, led: str | None
) -> JoinGroupResponse:
    """Writes the new member id; no other member is affected."""
    group, result = joining.group, joining.result
    assignments = {one.member_id: one.assignment for one in group.members.values()}
    result.changes.append(group_record(group, assignments))

    def restore_old_member(error: CoordinatorError) -> None:
        group.replace(new, old)

    result.undo = restore_old_member
    if joining.context.version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT:
        return join_response(group, new, skip_assignment=group.leader == new.member_id)
    # An older client that sees itself as leader would assign: it gets the old member id as leader.
    return join_response(group, new, leader=led, with_members=False)
