"""A static member that comes back under a new id (KIP-345)."""

from typing import Final

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import Deferred
from headrace.coordinator.group.classic.classic_group import ClassicGroup, ClassicState
from headrace.coordinator.group.classic.group_record import group_record
from headrace.coordinator.group.classic.join_context import JoinAnswer, JoinContext
from headrace.coordinator.group.classic.member import ClassicMember
from headrace.coordinator.group.classic.rebalance import Rebalances
from headrace.coordinator.group.classic.responses import joined, refused_join, refused_sync
from headrace.coordinator.group.classic.result_builder import ResultBuilder
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupResponse

FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT: Final = 9
"""A leader that is back learns that it leads, and that it must not assign (KIP-814)."""


class Replacements:
    """Puts a new process in the place of the old one that had the same instance id."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def replace(self, attempt: JoinContext, old: ClassicMember, member_id: str) -> JoinAnswer:
        """A stable group goes on with the assignment of the old process, unless the protocol of
        the next generation would be another one; else this is a member that joins again."""
        group, draft = attempt.group, attempt.draft
        led = group.leader
        new = attempt.member(member_id)
        new.assignment = old.assignment
        _fence(group, old, draft)
        group.replace(old, new)
        draft.cancel_timer(old.session_timer)
        self._rebalances.refresh_session(new, draft)
        if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol:
            return _continue(attempt, old, new, led)
        deferred: Deferred[JoinGroupResponse] = Deferred()
        group.set_joining(new, deferred)
        self._rebalances.prepare_or_complete(group, draft, attempt.now_ms)
        return deferred


def _fence(group: ClassicGroup, old: ClassicMember, draft: ResultBuilder) -> None:
    """Whatever the old process waits for, it learns that it has been replaced."""
    draft.complete(
        group.set_joining(old, None), refused_join(ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    )
    syncing, old.syncing = old.syncing, None
    draft.complete(syncing, refused_sync(ErrorCode.FENCED_INSTANCE_ID))


def _continue(
    attempt: JoinContext, old: ClassicMember, new: ClassicMember, led: str | None
) -> JoinGroupResponse:
    """The new id is written, and nobody else notices."""
    group, draft = attempt.group, attempt.draft
    assignments = {one.member_id: one.assignment for one in group.members.values()}
    draft.changes.append(group_record(group, assignments))

    def take_back(error: CoordinatorError) -> None:
        group.replace(new, old)

    draft.undo = take_back
    if attempt.context.version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT:
        return joined(group, new, skip_assignment=group.leader == new.member_id)
    # An older client that hears that it leads would assign: it is told of its former self.
    return joined(group, new, leader=led, with_members=False)
