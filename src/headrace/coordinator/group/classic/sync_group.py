"""SyncGroup: the leader sends the assignment, every member fetches its own."""

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import Deferred
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.classic.member import NO_ASSIGNMENT, ClassicMember
from headrace.coordinator.group.classic.rebalance import Rebalances
from headrace.coordinator.group.classic.responses import sync_error, sync_response
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

SyncAnswer = SyncGroupResponse | Deferred[SyncGroupResponse]


class ClassicSyncGroup:
    """Decides SyncGroup requests of classic groups."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def sync(
        self, group: ClassicGroup, request: SyncGroupRequest, result: ResultBuilder, now_ms: int
    ) -> SyncAnswer:
        """The assignment, immediately or when the leader has sent it; raises `CoordinatorError`."""
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise CoordinatorError(ErrorCode.ILLEGAL_GENERATION)
        if _differs(request.protocol_type, group.protocol_type) or _differs(
            request.protocol_name, group.protocol
        ):
            raise CoordinatorError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is ClassicState.PREPARING_REBALANCE:
            raise CoordinatorError(ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            result.cancel_timer(group.phase_timer)
        if group.state is ClassicState.STABLE:
            return sync_response(group, member.assignment)
        deferred = _wait(member, result)
        if group.leader == member.member_id:
            brought = {one.member_id: bytes(one.assignment) for one in request.assignments}
            assignments = {id_: brought.get(id_, NO_ASSIGNMENT) for id_ in group.members}
            self._rebalances.write_assignment(group, assignments, result, now_ms)
        return deferred


def _wait(member: ClassicMember, result: ResultBuilder) -> Deferred[SyncGroupResponse]:
    """Lets the member wait for the leader; an earlier SyncGroup of the member gets an error."""
    deferred: Deferred[SyncGroupResponse] = Deferred()
    earlier, member.syncing = member.syncing, deferred
    result.complete(earlier, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    return deferred


def _differs(said: str | None, known: str | None) -> bool:
    """Whether the client sent another value; older clients send none."""
    return said is not None and known is not None and said != known
