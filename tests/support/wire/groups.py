"""Groups over the wire: a ready coordinator, and a stable group with one member."""

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from headrace.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from support.groups.classic_groups import subscription
from support.waiting import wait_for
from support.wire.connection import Wire

DEADLINE_S = 60.0
JOIN_AT_ONCE = 3  # the last version of JoinGroup that does not require a member id


def wait_for_coordinator(wire: Wire, group: str) -> None:
    """Waits until the internal topic exists and the group's partition of it is loaded."""

    def found() -> bool:
        request = FindCoordinatorRequest(key=group, key_type=0)
        return wire.call(request, FindCoordinatorResponse, 3).error_code == ErrorCode.NONE

    def loaded() -> bool:
        request = OffsetFetchRequest(group_id=group, topics=[])
        return wire.call(request, OffsetFetchResponse, 7).error_code == ErrorCode.NONE

    wait_for(found, "the group has a coordinator", deadline_s=DEADLINE_S)
    wait_for(loaded, "the coordinator is loaded", deadline_s=DEADLINE_S)


def join(wire: Wire, group: str, *topics: str) -> tuple[str, int]:
    """Adds a new member that reads these topics and leads the group; returns its id and the
    generation. The caller must then `sync`."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(*topics))],
    )
    joined = wire.call(request, JoinGroupResponse, JOIN_AT_ONCE)
    assert joined.error_code == ErrorCode.NONE
    return joined.member_id, joined.generation_id


def sync(wire: Wire, group: str, member_id: str, generation: int) -> None:
    """Makes the group stable."""
    request = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"mine")],
    )
    assert wire.call(request, SyncGroupResponse, 3).error_code == ErrorCode.NONE


def leave(wire: Wire, group: str, member_id: str) -> None:
    request = LeaveGroupRequest(group_id=group, member_id=member_id)
    assert wire.call(request, LeaveGroupResponse, 2).error_code == ErrorCode.NONE
