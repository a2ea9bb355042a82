"""From one generation of a classic group to the next.

A rebalance has two phases, and one timer per group ends the current one. In the join phase the
coordinator waits until every member has rejoined, at most for the longest rebalance timeout; it
removes dynamic members that have not rejoined by then. In the sync phase it waits for the leader's
assignment and for every member to fetch its own, again at most for a rebalance timeout.
"""

from collections.abc import Callable, Mapping
from typing import Final

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.classic_group import ClassicGroup, InitialDelay
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.classic.group_record import group_record
from headrace.coordinator.group.classic.member import NO_ASSIGNMENT, ClassicMember, session_timer
from headrace.coordinator.group.classic.responses import (
    join_error,
    join_response,
    sync_error,
    sync_response,
)
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.errors import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a JoinGroup of a new member may wait. Such a member does not know its id and cannot
heartbeat, and a client that timed out may return under a new id repeatedly."""


class Rebalances:
    """Changes the states of groups. Every method adds its records, responses and timers to a
    result."""

    def __init__(self, config: Callable[[str], GroupConfig]) -> None:
        self._config = config

    # The join phase

    def prepare_or_complete(self, group: ClassicGroup, result: ResultBuilder, now_ms: int) -> None:
        """Called when the members have changed. Starts a rebalance, or completes the join phase if
        it waited only for this change."""
        if group.can_rebalance:
            self.prepare_rebalance(group, result, now_ms)
        else:
            self.complete_if_all_joined(group, result, now_ms)

    def prepare_rebalance(self, group: ClassicGroup, result: ResultBuilder, now_ms: int) -> None:
        """Starts a rebalance; members learn of it with their next heartbeat."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._withdraw_assignment(group, result)
        group.pending_syncs.clear()
        first = group.state is ClassicState.EMPTY
        group.transition_to(ClassicState.PREPARING_REBALANCE, now_ms)
        if first:
            # A new group waits for its other members, so that it does not rebalance
            # for each of them.
            delay_ms = self._config(group.group_id).classic_initial_rebalance_delay_ms
            group.initial_delay = InitialDelay(delay_ms, group.rebalance_timeout_ms)
            result.set_timer(group.phase_timer, delay_ms)
        elif group.everyone_joined:
            self._complete_join_phase(group, result, now_ms)
        else:
            result.set_timer(group.phase_timer, group.rebalance_timeout_ms)

    def complete_if_all_joined(
        self, group: ClassicGroup, result: ResultBuilder, now_ms: int
    ) -> None:
        """Completes the join phase if every member has joined and no initial delay runs."""
        if (
            group.state is ClassicState.PREPARING_REBALANCE
            and group.initial_delay is None
            and group.everyone_joined
        ):
            self._complete_join_phase(group, result, now_ms)

    def _complete_join_phase(self, group: ClassicGroup, result: ResultBuilder, now_ms: int) -> None:
        """The members that have joined are the next generation. Static members stay even if they
        have not joined: only the end of their session removes them."""
        for member in list(group.members.values()):
            if member.joining is None and not member.is_static:
                group.remove(member.member_id)
                result.cancel_timer(member.session_timer)
        if not group.elect_leader() and group.members:
            # Only static members are left, and none has rejoined: wait until one does, or until
            # their sessions have ended.
            result.set_timer(group.phase_timer, group.rebalance_timeout_ms)
            return
        group.begin_generation(now_ms)
        if group.state is ClassicState.EMPTY:
            # Without this record, a moved coordinator would load the last generation again,
            # and its members would time out again.
            result.cancel_timer(group.phase_timer)
            result.changes.append(group_record(group, {}))
            return
        for member in group.members.values():
            result.complete(group.set_joining(member, None), join_response(group, member))
            member.is_new = False
            self.refresh_session(member, result)
        group.pending_syncs.update(group.members)
        result.set_timer(group.phase_timer, group.rebalance_timeout_ms)

    # The sync phase

    def write_assignment(
        self,
        group: ClassicGroup,
        assignments: Mapping[str, bytes],
        result: ResultBuilder,
        now_ms: int,
    ) -> None:
        """Writes the leader's assignment and answers every member that waits for it."""
        result.changes.append(group_record(group, assignments))
        for member in group.members.values():
            if member.syncing is not None:
                assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
                self._answer_sync(group, member, assignment, result)

        def rebalance_instead(error: CoordinatorError) -> None:
            # The waiting members get the error. The timer of the sync phase removes those that do
            # not rejoin; it still runs, because the timers of a failed result are not set.
            self._withdraw_assignment(group, ResultBuilder())
            group.pending_syncs.clear()
            group.transition_to(ClassicState.PREPARING_REBALANCE, now_ms)

        result.undo = rebalance_instead

    def _answer_sync(
        self, group: ClassicGroup, member: ClassicMember, assignment: bytes, result: ResultBuilder
    ) -> None:
        syncing, member.syncing = member.syncing, None
        result.complete(syncing, sync_response(group, assignment))
        self.refresh_session(member, result)

    def _withdraw_assignment(self, group: ClassicGroup, result: ResultBuilder) -> None:
        """Drops the assignment of this generation and fails the waiting SyncGroup requests."""
        for member in group.members.values():
            member.assignment = NO_ASSIGNMENT
            if member.syncing is not None:
                syncing, member.syncing = member.syncing, None
                result.complete(syncing, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
                self.refresh_session(member, result)

    # Timers

    def on_phase_timeout(self, group: ClassicGroup, result: ResultBuilder, now_ms: int) -> None:
        """Called when the timer of the phase has expired."""
        if group.state is ClassicState.PREPARING_REBALANCE:
            delay = group.initial_delay
            if delay is not None:
                delay_ms = self._config(group.group_id).classic_initial_rebalance_delay_ms
                extended_ms = delay.extend(delay_ms)
                if extended_ms is not None:
                    result.set_timer(group.phase_timer, extended_ms)
                    return
            self._complete_join_phase(group, result, now_ms)
        elif group.state is not ClassicState.EMPTY and group.pending_syncs:
            for member_id in group.pending_syncs.copy():
                self.remove_member(group, member_id, result)
            self.prepare_rebalance(group, result, now_ms)

    def refresh_session(self, member: ClassicMember, result: ResultBuilder) -> None:
        """Restarts the session timeout of the member."""
        result.set_timer(member.session_timer, member.session_timeout_ms)

    def remove_member(self, group: ClassicGroup, member_id: str, result: ResultBuilder) -> None:
        """Removes a member or a pending one; its waiting requests get UNKNOWN_MEMBER_ID."""
        member = group.members.get(member_id)
        if member is not None:
            result.complete(
                group.set_joining(member, None), join_error(ErrorCode.UNKNOWN_MEMBER_ID)
            )
            syncing, member.syncing = member.syncing, None
            result.complete(syncing, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member_id)
        result.cancel_timer(session_timer(group.group_id, member_id))
