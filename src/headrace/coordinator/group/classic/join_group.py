"""JoinGroup: which member may join a classic group, and what that changes."""

from collections.abc import Callable
from random import Random
from typing import Final
from uuid import UUID

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import Deferred
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.classic.join_context import JoinAnswer, JoinContext
from headrace.coordinator.group.classic.member import ClassicMember, session_timer
from headrace.coordinator.group.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalances
from headrace.coordinator.group.classic.responses import join_error, join_response
from headrace.coordinator.group.classic.static_member_replacement import StaticMemberReplacement
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_GIVEN_ID: Final = 4
"""From this version on a new member first gets an id and then joins with it (KIP-394). Otherwise a
client whose request timed out before it read the response would leave a dead member."""


def check_session_timeout(
    request: JoinGroupRequest, config: GroupConfig
) -> JoinGroupResponse | None:
    """The error if the member's session timeout is not between `group.min.session.timeout.ms` and
    `group.max.session.timeout.ms`."""
    shortest_ms = config.classic_min_session_timeout_ms
    longest_ms = config.classic_max_session_timeout_ms
    if shortest_ms <= request.session_timeout_ms <= longest_ms:
        return None
    return join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)


class ClassicJoinGroup:
    """Decides JoinGroup requests of classic groups."""

    def __init__(
        self, rebalances: Rebalances, config: Callable[[str], GroupConfig], random: Random
    ) -> None:
        self._rebalances = rebalances
        self._replacements = StaticMemberReplacement(rebalances)
        self._config = config
        self._random = random

    def join(self, joining: JoinContext) -> JoinAnswer:
        """The current generation, an error, or a response at the end of the join phase."""
        group, request = joining.group, joining.request
        member_id = request.member_id
        if not self._has_room(group, member_id):
            self._rebalances.remove_member(group, member_id, joining.result)
            return join_error(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.accepts(request.protocol_type, joining.protocols):
            return join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if not member_id:
            return self._join_new(joining)
        if member_id not in group.pending_joins:
            return self._rejoin(joining)
        if request.group_instance_id is not None:
            # A static member gets its id with its first JoinGroup and is never pending.
            return join_error(ErrorCode.UNKNOWN_SERVER_ERROR, member_id)
        return self._add(joining, member_id)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._config(group.group_id).classic_max_size
        if group.state is ClassicState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is ClassicState.PREPARING_REBALANCE:
            # The limit may have been lowered: then the last members to rejoin are refused.
            return (member is not None and member.joining is not None) or group.joining < limit
        return member is not None or len(group.members) < limit

    def _join_new(self, joining: JoinContext) -> JoinAnswer:
        group, request = joining.group, joining.request
        instance_id = request.group_instance_id
        unique = UUID(int=self._random.getrandbits(128), version=4)
        if instance_id is not None:
            member_id = f"{instance_id}-{unique}"
            current = group.instances.get(instance_id)
            if current is None:
                return self._add(joining, member_id)
            return self._replacements.replace(joining, group.members[current], member_id)
        member_id = f"{joining.context.client_id}-{unique}"
        if joining.context.version < FIRST_VERSION_WITH_GIVEN_ID:
            return self._add(joining, member_id)
        group.pending_joins.add(member_id)
        joining.result.set_timer(
            session_timer(group.group_id, member_id), request.session_timeout_ms
        )
        return join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _add(self, joining: JoinContext, member_id: str) -> JoinAnswer:
        group, result = joining.group, joining.result
        member = joining.member(member_id)
        deferred: Deferred[JoinGroupResponse] = Deferred()
        member.joining = deferred
        member.is_new = True
        if group.initial_delay is not None:
            group.initial_delay.joined = True
        group.add(member)
        result.set_timer(member.session_timer, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalances.prepare_or_complete(group, result, joining.now_ms)
        return deferred

    def _rejoin(self, joining: JoinContext) -> JoinAnswer:
        group, request = joining.group, joining.request
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
        except CoordinatorError as error:
            return join_error(error.code, request.member_id)
        if member.protocols == joining.protocols:
            if group.state is ClassicState.COMPLETING_REBALANCE:
                # The member missed the response to its JoinGroup.
                return join_response(group, member)
            if group.state is ClassicState.STABLE and group.leader != member.member_id:
                # Nothing has changed. A leader that rejoins wants to assign again, e.g. because a
                # topic has more partitions.
                return join_response(group, member)
        deferred = self._wait_again(joining, member)
        self._rebalances.prepare_or_complete(group, joining.result, joining.now_ms)
        return deferred

    def _wait_again(
        self, joining: JoinContext, member: ClassicMember
    ) -> Deferred[JoinGroupResponse]:
        """The member waits, with its new protocols and timeouts. If an earlier JoinGroup of it
        still waits, that one gets an error now: its connection may be alive and must not stay
        blocked."""
        group = joining.group
        group.update(member, joining.protocols)
        member.rebalance_timeout_ms = joining.rebalance_timeout_ms
        member.session_timeout_ms = joining.request.session_timeout_ms
        deferred: Deferred[JoinGroupResponse] = Deferred()
        earlier = group.set_joining(member, deferred)
        joining.result.complete(
            earlier, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        )
        return deferred
