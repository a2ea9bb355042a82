"""From one generation of a classic group to the next.

A rebalance has two phases, and one timer per group ends whichever it is in. In the join phase the
coordinator waits until every member has joined again, at most for the longest rebalance timeout;
dynamic members that have not come by then are out. In the sync phase it waits for the leader's
assignment and for everybody to fetch theirs, again for at most a rebalance timeout.
"""

from collections.abc import Callable, Mapping
from typing import Final

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.classic_group import (
    ClassicGroup,
    ClassicState,
    InitialDelay,
)
from headrace.coordinator.group.classic.group_record import group_record
from headrace.coordinator.group.classic.member import NO_ASSIGNMENT, ClassicMember, session_timer
from headrace.coordinator.group.classic.responses import (
    assigned,
    joined,
    refused_join,
    refused_sync,
)
from headrace.coordinator.group.classic.result_builder import ResultBuilder
from headrace.coordinator.group.group_config import GroupConfig
from headrace.protocol.errors import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a JoinGroup of a new member may wait. Such a member does not know its id and cannot
heartbeat, and a client that gave up may come back under a new id again and again."""


class Rebalances:
    """Moves groups between states. Every method adds what is to be done to a draft."""

    def __init__(self, config: Callable[[str], GroupConfig]) -> None:
        self._config = config

    # The join phase

    def prepare_or_complete(self, group: ClassicGroup, draft: ResultBuilder, now_ms: int) -> None:
        """The members have changed: starts a rebalance, or ends the join phase if this was the
        last thing that it waited for."""
        if group.state is not ClassicState.PREPARING_REBALANCE:
            self.prepare(group, draft, now_ms)
        else:
            self.complete_if_joined(group, draft, now_ms)

    def prepare(self, group: ClassicGroup, draft: ResultBuilder, now_ms: int) -> None:
        """Starts a rebalance; members learn of it with their next heartbeat."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._withdraw_assignment(group, draft)
        group.pending_syncs.clear()
        first = group.state is ClassicState.EMPTY
        group.move(ClassicState.PREPARING_REBALANCE, now_ms)
        if first:
            # A new group gives its other members time to come, so that it need not rebalance
            # for each of them.
            delay_ms = self._config(group.group_id).classic_initial_rebalance_delay_ms
            group.initial_delay = InitialDelay(delay_ms, group.rebalance_timeout_ms)
            draft.set_timer(group.phase_timer, delay_ms)
        elif group.everyone_joined:
            self._complete(group, draft, now_ms)
        else:
            draft.set_timer(group.phase_timer, group.rebalance_timeout_ms)

    def complete_if_joined(self, group: ClassicGroup, draft: ResultBuilder, now_ms: int) -> None:
        """Ends the join phase if everybody is there, but no initial delay."""
        if (
            group.state is ClassicState.PREPARING_REBALANCE
            and group.initial_delay is None
            and group.everyone_joined
        ):
            self._complete(group, draft, now_ms)

    def _complete(self, group: ClassicGroup, draft: ResultBuilder, now_ms: int) -> None:
        """Those who have joined make the next generation. Static members stay, even if they have
        not: only their session ends them."""
        for member in list(group.members.values()):
            if member.joining is None and not member.is_static:
                group.remove(member.member_id)
                draft.cancel_timer(member.session_timer)
        if not group.elect_leader() and group.members:
            # Only static members, and none of them is back: wait on until one is, or until their
            # sessions have ended.
            draft.set_timer(group.phase_timer, group.rebalance_timeout_ms)
            return
        group.begin_generation(now_ms)
        if group.state is ClassicState.EMPTY:
            # If this is not written, the last generation is back after a move of the coordinator,
            # and its members time out again.
            draft.cancel_timer(group.phase_timer)
            draft.changes.append(group_record(group, {}))
            return
        for member in group.members.values():
            draft.complete(group.set_joining(member, None), joined(group, member))
            member.is_new = False
            self.refresh_session(member, draft)
        group.pending_syncs.update(group.members)
        draft.set_timer(group.phase_timer, group.rebalance_timeout_ms)

    # The sync phase

    def propose(
        self,
        group: ClassicGroup,
        assignments: Mapping[str, bytes],
        draft: ResultBuilder,
        now_ms: int,
    ) -> None:
        """Writes the leader's assignment and answers everybody who waits for it."""
        draft.changes.append(group_record(group, assignments))
        for member in group.members.values():
            if member.syncing is not None:
                assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
                self._answer_sync(group, member, assignment, draft)

        def rebalance_instead(error: CoordinatorError) -> None:
            # Those who waited get the error. Whoever does not join again is ended by the timer
            # of the sync phase, which still runs: the timers of a failed turn are not set.
            self._withdraw_assignment(group, ResultBuilder())
            group.pending_syncs.clear()
            group.move(ClassicState.PREPARING_REBALANCE, now_ms)

        draft.undo = rebalance_instead

    def _answer_sync(
        self, group: ClassicGroup, member: ClassicMember, assignment: bytes, draft: ResultBuilder
    ) -> None:
        syncing, member.syncing = member.syncing, None
        draft.complete(syncing, assigned(group, assignment))
        self.refresh_session(member, draft)

    def _withdraw_assignment(self, group: ClassicGroup, draft: ResultBuilder) -> None:
        """Nobody gets what the leader of this generation might still assign."""
        for member in group.members.values():
            member.assignment = NO_ASSIGNMENT
            if member.syncing is not None:
                syncing, member.syncing = member.syncing, None
                draft.complete(syncing, refused_sync(ErrorCode.REBALANCE_IN_PROGRESS))
                self.refresh_session(member, draft)

    # Timers

    def phase_over(self, group: ClassicGroup, draft: ResultBuilder, now_ms: int) -> None:
        """The timer of the phase has run out."""
        if group.state is ClassicState.PREPARING_REBALANCE:
            delay = group.initial_delay
            if delay is not None:
                delay_ms = self._config(group.group_id).classic_initial_rebalance_delay_ms
                extended_ms = delay.extend(delay_ms)
                if extended_ms is not None:
                    draft.set_timer(group.phase_timer, extended_ms)
                    return
            self._complete(group, draft, now_ms)
        elif group.state is not ClassicState.EMPTY and group.pending_syncs:
            for member_id in group.pending_syncs.copy():
                self.drop(group, member_id, draft)
            self.prepare(group, draft, now_ms)

    def session_over(
        self, group: ClassicGroup, member_id: str, draft: ResultBuilder, now_ms: int
    ) -> None:
        """A member, or one that was given an id and never used it, has not been heard of."""
        member = group.members.get(member_id)
        if member is None and member_id not in group.pending_joins:
            return
        if member is not None and member.is_alive_by_waiting:
            self.refresh_session(member, draft)
            return
        self.drop(group, member_id, draft)
        if group.state is ClassicState.PREPARING_REBALANCE:
            if group.everyone_joined:
                self._complete(group, draft, now_ms)
        elif member is not None:
            self.prepare(group, draft, now_ms)

    def refresh_session(self, member: ClassicMember, draft: ResultBuilder) -> None:
        """The member has been heard of."""
        draft.set_timer(member.session_timer, member.session_timeout_ms)

    def drop(self, group: ClassicGroup, member_id: str, draft: ResultBuilder) -> None:
        """Takes a member or a pending one out; if it still waits, it must start afresh."""
        member = group.members.get(member_id)
        if member is not None:
            draft.complete(
                group.set_joining(member, None), refused_join(ErrorCode.UNKNOWN_MEMBER_ID)
            )
            syncing, member.syncing = member.syncing, None
            draft.complete(syncing, refused_sync(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member_id)
        draft.cancel_timer(session_timer(group.group_id, member_id))
