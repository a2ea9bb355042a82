"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup over the wire, in all their versions."""

from collections.abc import Callable, Iterator

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from headrace.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from headrace.testing import Broker
from support.brokers.bootstrap import REFERENCE, serving
from support.groups.classic_groups import subscription
from support.waiting import wait_for
from support.wire.connection import ConnectionEnded, Wire

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
READY = (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
NewName = Callable[[], str]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with serving(SETTINGS) as servers:
        yield servers


@pytest.fixture
def group(wire: Wire, new_name: NewName) -> str:
    name = new_name()
    wait_until_coordinated(wire, name)
    return name


def wait_until_coordinated(wire: Wire, group: str) -> None:
    """Waits until the internal topic exists and the group's partition is loaded."""

    def found() -> bool:
        answer = wire.call(
            FindCoordinatorRequest(key=group, key_type=0), FindCoordinatorResponse, 3
        )
        return answer.error_code == ErrorCode.NONE

    def loaded() -> bool:
        answer = wire.call(SyncGroupRequest(group_id=group), SyncGroupResponse, 4)
        return answer.error_code in READY

    wait_for(found, "the group has a coordinator", deadline_s=60)
    wait_for(loaded, "the coordinator is loaded", deadline_s=60)


def join_request(
    group: str, member_id: str = "", *, instance_id: str | None = None, name: str = "range"
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=subscription("t"))],
    )


def join(wire: Wire, group: str, member_id: str = "", *, version: int = 9) -> JoinGroupResponse:
    """Joins, with the member id from the broker if the broker returns one first."""
    answer = wire.call(join_request(group, member_id), JoinGroupResponse, version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = wire.call(join_request(group, answer.member_id), JoinGroupResponse, version)
    return answer


def sync(
    wire: Wire,
    group: str,
    joined: JoinGroupResponse,
    *assigned: tuple[str, bytes],
    version: int = 5,
) -> SyncGroupResponse:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in assigned
        ],
    )
    return wire.call(request, SyncGroupResponse, version)


def heartbeat(
    wire: Wire, group: str, member_id: str, generation: int, *, version: int = 4
) -> ErrorCode:
    request = HeartbeatRequest(group_id=group, member_id=member_id, generation_id=generation)
    return ErrorCode(wire.call(request, HeartbeatResponse, version).error_code)


@pytest.mark.parametrize("version", range(10))
def test_one_member_joins_heartbeats_and_leaves_in_every_version(
    wire: Wire, group: str, version: int
) -> None:
    joined = join(wire, group, version=version)
    assert joined.error_code == ErrorCode.NONE
    assert joined.generation_id == 1
    assert joined.leader == joined.member_id
    assert joined.protocol_name == "range"
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert [one.metadata for one in joined.members] == [subscription("t")]
    own = (joined.member_id, b"all of it")
    synced = sync(wire, group, joined, own, version=min(version, 5))
    assert synced.error_code == ErrorCode.NONE
    assert synced.assignment == b"all of it"
    beat = heartbeat(wire, group, joined.member_id, 1, version=min(version, 4))
    assert beat is ErrorCode.NONE
    leave = LeaveGroupRequest(
        group_id=group,
        member_id=joined.member_id if version < 3 else "",
        members=[MemberIdentity(member_id=joined.member_id)] if version >= 3 else [],
    )
    left = wire.call(leave, LeaveGroupResponse, min(version, 5))
    assert left.error_code == ErrorCode.NONE
    assert [one.error_code for one in left.members] == ([ErrorCode.NONE] if version >= 3 else [])
    gone = heartbeat(wire, group, joined.member_id, 1, version=min(version, 4))
    assert gone is ErrorCode.UNKNOWN_MEMBER_ID


def test_two_members_share_partitions_and_a_third_triggers_a_rebalance(
    wire: Wire, connect: Callable[[], Wire], group: str
) -> None:
    first = join(wire, group)
    sync(wire, group, first, (first.member_id, b"1"))
    other = connect()
    asked = other.call(join_request(group), JoinGroupResponse, 9)
    assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED
    other.send(join_request(group, asked.member_id), 9)
    wait_for(
        lambda: heartbeat(wire, group, first.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS,
        "the first member is told to join again",
    )
    again = join(wire, group, first.member_id)
    _, answer = other.receive(APIS[ApiKey.JOIN_GROUP], 9)
    assert isinstance(answer, JoinGroupResponse)
    assert again.generation_id == answer.generation_id == 2
    assert again.leader == answer.leader == first.member_id
    assert {one.member_id for one in again.members} == {first.member_id, asked.member_id}
    assert answer.members == []
    other.send(SyncGroupRequest(group_id=group, generation_id=2, member_id=asked.member_id), 3)
    own = sync(wire, group, again, (first.member_id, b"1"), (asked.member_id, b"2"))
    assert own.assignment == b"1"
    _, synced = other.receive(APIS[ApiKey.SYNC_GROUP], 3)
    assert isinstance(synced, SyncGroupResponse)
    assert synced.assignment == b"2"


def test_a_static_member_resumes_its_membership(
    wire: Wire, connect: Callable[[], Wire], group: str
) -> None:
    first = wire.call(join_request(group, instance_id="a"), JoinGroupResponse, 9)
    assert first.error_code == ErrorCode.NONE
    assert first.member_id.startswith("a-")
    sync(wire, group, first, (first.member_id, b"mine"))
    back = connect().call(join_request(group, instance_id="a"), JoinGroupResponse, 9)
    assert (back.generation_id, back.skip_assignment) == (1, True)
    assert sync(wire, group, back).assignment == b"mine"
    beat = HeartbeatRequest(
        group_id=group, member_id=first.member_id, generation_id=1, group_instance_id="a"
    )
    fenced = wire.call(beat, HeartbeatResponse, 4)
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
    leave = LeaveGroupRequest(group_id=group, members=[MemberIdentity(group_instance_id="a")])
    left = wire.call(leave, LeaveGroupResponse, 5)
    assert [one.error_code for one in left.members] == [ErrorCode.NONE]
    assert left.members[0].group_instance_id == "a"


def test_requests_with_an_empty_group_id_are_rejected(wire: Wire, group: str) -> None:
    invalid = ErrorCode.INVALID_GROUP_ID
    assert wire.call(join_request(""), JoinGroupResponse).error_code == invalid
    synced = wire.call(
        SyncGroupRequest(protocol_type="consumer", protocol_name="range"), SyncGroupResponse
    )
    assert synced.error_code == invalid
    assert wire.call(HeartbeatRequest(), HeartbeatResponse).error_code == invalid
    assert wire.call(LeaveGroupRequest(), LeaveGroupResponse).error_code == invalid


def test_requests_for_a_missing_group_are_rejected(wire: Wire, group: str) -> None:
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    joined = wire.call(join_request(group, "who"), JoinGroupResponse)
    assert (joined.error_code, joined.member_id) == (unknown, "who")
    assert heartbeat(wire, group, "who", 1) is unknown
    left = wire.call(
        LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="who")]),
        LeaveGroupResponse,
    )
    assert left.error_code == ErrorCode.NONE
    assert [one.error_code for one in left.members] == [unknown]
    one = wire.call(LeaveGroupRequest(group_id=group, member_id="who"), LeaveGroupResponse, 2)
    assert one.error_code == unknown


def test_the_newest_sync_version_requires_the_protocol(wire: Wire, group: str) -> None:
    joined = join(wire, group)
    request = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
    )
    answer = wire.call(request, SyncGroupResponse, 5)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_without_a_common_protocol_is_rejected(wire: Wire, group: str) -> None:
    join(wire, group)
    refused = wire.call(join_request(group, name="sticky"), JoinGroupResponse)
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_an_out_of_bounds_session_timeout_is_rejected(
    wire: Wire, group: str, session_ms: int
) -> None:
    request = join_request(group)
    request.session_timeout_ms = session_ms
    refused = wire.call(request, JoinGroupResponse)
    assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_client_that_disconnects_while_joining_does_not_block_the_group(
    wire: Wire, connect: Callable[[], Wire], group: str
) -> None:
    first = join(wire, group)
    sync(wire, group, first, (first.member_id, b"1"))
    other = connect()
    asked = other.call(join_request(group), JoinGroupResponse, 9)
    other.send(join_request(group, asked.member_id), 9)
    wait_for(
        lambda: heartbeat(wire, group, first.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS,
        "the other member waits",
    )
    other.close()
    assert join(wire, group, first.member_id).generation_id == 2


def test_a_group_survives_a_restart_without_a_rejoin(
    new_name: NewName,
) -> None:
    if REFERENCE:
        pytest.skip("restarts the broker")
    group = new_name()
    with Broker(settings=SETTINGS) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            wait_until_coordinated(wire, group)
            joined = join(wire, group)
            sync(wire, group, joined, (joined.member_id, b"mine"))
        broker.restart()
        with Wire(broker.bootstrap_servers) as wire:
            wait_until_coordinated(wire, group)
            assert heartbeat(wire, group, joined.member_id, 1) is ErrorCode.NONE
            assert sync(wire, group, joined).assignment == b"mine"


def test_a_stopping_broker_releases_waiting_members(new_name: NewName) -> None:
    if REFERENCE:
        pytest.skip("stops the broker")
    group = new_name()
    with (
        Broker(settings={"group.initial.rebalance.delay.ms": "60000"}) as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        wait_until_coordinated(wire, group)
        wire.send(join_request(group), 3)
        wire.send(SyncGroupRequest(group_id=group), 3)
        broker.stop()
        try:
            _, answer = wire.receive(APIS[ApiKey.JOIN_GROUP], 3)
        except ConnectionEnded:
            return
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
