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
from headrace.coordinator.group.classic.responses import joined, refused_join
from headrace.coordinator.group.classic.static_member_replacement import Replacements
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupResponse

FIRST_VERSION_WITH_GIVEN_ID: Final = 4
"""From this version on a new member first gets an id and then joins with it (KIP-394). A client
whose request timed out before it read the response leaves no dead member behind."""


class Joins:
    """Decides JoinGroup requests of classic groups."""

    def __init__(
        self, rebalances: Rebalances, config: Callable[[str], GroupConfig], random: Random
    ) -> None:
        self._rebalances = rebalances
        self._replacements = Replacements(rebalances)
        self._config = config
        self._random = random

    def join(self, attempt: JoinContext) -> JoinAnswer:
        """The current generation, an error, or a response at the end of the join phase."""
        group, request = attempt.group, attempt.request
        member_id = request.member_id
        if not self._has_room(group, member_id):
            self._rebalances.drop(group, member_id, attempt.result)
            return refused_join(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.accepts(request.protocol_type, attempt.protocols):
            return refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if not member_id:
            return self._join_new(attempt)
        if member_id not in group.pending_joins:
            return self._rejoin(attempt)
        if request.group_instance_id is not None:
            # A static member gets its id with its first JoinGroup and is never pending.
            return refused_join(ErrorCode.UNKNOWN_SERVER_ERROR, member_id)
        return self._add(attempt, member_id)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._config(group.group_id).classic_max_size
        if group.state is ClassicState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is ClassicState.PREPARING_REBALANCE:
            # The limit may have been lowered: then the last members to rejoin are refused.
            return (member is not None and member.joining is not None) or group.joining < limit
        return member is not None or len(group.members) < limit

    def _join_new(self, attempt: JoinContext) -> JoinAnswer:
        group, request = attempt.group, attempt.request
        instance_id = request.group_instance_id
        unique = UUID(int=self._random.getrandbits(128), version=4)
        if instance_id is not None:
            member_id = f"{instance_id}-{unique}"
            current = group.instances.get(instance_id)
            if current is None:
                return self._add(attempt, member_id)
            return self._replacements.replace(attempt, group.members[current], member_id)
        member_id = f"{attempt.context.client_id}-{unique}"
        if attempt.context.version < FIRST_VERSION_WITH_GIVEN_ID:
            return self._add(attempt, member_id)
        group.pending_joins.add(member_id)
        attempt.result.set_timer(
            session_timer(group.group_id, member_id), request.session_timeout_ms
        )
        return refused_join(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _add(self, attempt: JoinContext, member_id: str) -> JoinAnswer:
        group, result = attempt.group, attempt.result
        member = attempt.member(member_id)
        deferred: Deferred[JoinGroupResponse] = Deferred()
        member.joining = deferred
        member.is_new = True
        if group.initial_delay is not None:
            group.initial_delay.joined = True
        group.add(member)
        result.set_timer(member.session_timer, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalances.prepare_or_complete(group, result, attempt.now_ms)
        return deferred

    def _rejoin(self, attempt: JoinContext) -> JoinAnswer:
        group, request = attempt.group, attempt.request
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
        except CoordinatorError as error:
            return refused_join(error.code, request.member_id)
        if member.protocols == attempt.protocols:
            if group.state is ClassicState.COMPLETING_REBALANCE:
                # It missed the response to its JoinGroup.
                return joined(group, member)
            if group.state is ClassicState.STABLE and group.leader != member.member_id:
                # Nothing has changed. A leader that rejoins wants to assign again, e.g. because a
                # topic has more partitions.
                return joined(group, member)
        deferred = self._wait_again(attempt, member)
        self._rebalances.prepare_or_complete(group, attempt.result, attempt.now_ms)
        return deferred

    def _wait_again(
        self, attempt: JoinContext, member: ClassicMember
    ) -> Deferred[JoinGroupResponse]:
        """The member waits, with its new protocols and timeouts. If an earlier JoinGroup of it
        still waits, that one gets an error now: its connection may be alive and must not stay
        blocked."""
        group = attempt.group
        group.update(member, attempt.protocols)
        member.rebalance_timeout_ms = attempt.rebalance_timeout_ms
        member.session_timeout_ms = attempt.request.session_timeout_ms
        deferred: Deferred[JoinGroupResponse] = Deferred()
        earlier = group.set_joining(member, deferred)
        attempt.result.complete(
            earlier, refused_join(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        )
        return deferred
