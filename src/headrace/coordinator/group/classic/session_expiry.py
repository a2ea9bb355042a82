"""The end of a session in a classic group: a member that did not send a heartbeat in time."""

from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.classic.rebalance import Rebalances
from headrace.coordinator.group.result_builder import ResultBuilder


def expire_session(
    rebalances: Rebalances,
    group: ClassicGroup,
    member_id: str,
    result: ResultBuilder,
    now_ms: int,
) -> None:
    """Removes the member, or the assigned member id, whose session timer has expired, and starts a
    rebalance. A member that waits for a response cannot heartbeat: its session is extended."""
    member = group.members.get(member_id)
    if member is None and member_id not in group.pending_joins:
        return
    if member is not None and member.is_alive_by_waiting:
        rebalances.refresh_session(member, result)
        return
    rebalances.remove_member(group, member_id, result)
    if member is not None or group.state is ClassicState.PREPARING_REBALANCE:
        rebalances.prepare_or_complete(group, result, now_ms)
