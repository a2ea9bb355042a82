"""ListGroups, DescribeGroups and DeleteGroups over the wire, in all their versions."""

from collections.abc import Callable, Iterator

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headrace.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from support.brokers.bootstrap import AT_ONCE, serving
from support.groups.classic_groups import subscription
from support.wire.connection import CLIENT_ID, Wire
from support.wire.groups import join, leave, sync, wait_for_coordinator

GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
NOT_REQUESTED = -(2**31)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A separate broker: groups form at once, and no other test's groups are listed."""
    with serving(AT_ONCE) as servers:
        yield servers


@pytest.fixture
def group(wire: Wire, new_name: Callable[[], str]) -> str:
    """A stable group of one member."""
    name = new_name()
    wait_for_coordinator(wire, name)
    member, generation = join(wire, name, "some-topic")
    sync(wire, name, member, generation)
    return name


@pytest.fixture
def simple(wire: Wire, new_name: Callable[[], str], topic: str) -> str:
    """A group that only has an offset."""
    name = new_name()
    wait_for_coordinator(wire, name)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    request = OffsetCommitRequest(
        group_id=name, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )
    (answer,) = wire.call(request, OffsetCommitResponse, 9).topics
    assert answer.partitions[0].error_code == ErrorCode.NONE
    return name


def listed(wire: Wire, version: int = 5, **filters: list[str]) -> dict[str, tuple[str, str, str]]:
    """Protocol type, state and type of each group."""
    answer = wire.call(ListGroupsRequest(**filters), ListGroupsResponse, version)
    assert answer.error_code == ErrorCode.NONE
    return {
        one.group_id: (one.protocol_type, one.group_state, one.group_type) for one in answer.groups
    }


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(wire: Wire, group: str, simple: str, version: int) -> None:
    groups = listed(wire, version)
    kind = "classic" if version >= 5 else ""
    stable, empty = ("Stable", "Empty") if version >= 4 else ("", "")
    assert groups[group] == ("consumer", stable, kind)
    assert groups[simple] == ("", empty, kind)


def test_groups_are_listed_by_state(wire: Wire, group: str, simple: str) -> None:
    stable = listed(wire, states_filter=["Stable"])
    assert group in stable
    assert simple not in stable
    empty = listed(wire, states_filter=["empty"])
    assert simple in empty
    assert group not in empty
    assert listed(wire, states_filter=["Nonsense"]) == {}


def test_groups_are_listed_by_type(wire: Wire, group: str) -> None:
    assert group in listed(wire, types_filter=["classic"])
    assert group not in listed(wire, types_filter=["consumer", "share"])


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described(wire: Wire, group: str, version: int) -> None:
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=version >= 3)
    (described,) = wire.call(request, DescribeGroupsResponse, version).groups
    assert described.error_code == ErrorCode.NONE
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert described.authorized_operations == (GROUP_OPERATIONS if version >= 3 else NOT_REQUESTED)
    (member,) = described.members
    assert member.member_id.startswith(CLIENT_ID)
    assert (member.client_id, member.client_host) == (CLIENT_ID, "/127.0.0.1")
    assert member.member_metadata == subscription("some-topic")
    assert member.member_assignment == b"mine"


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_does_not_exist_is_dead(
    wire: Wire, group: str, new_name: Callable[[], str], version: int
) -> None:
    name = new_name()
    (described,) = wire.call(
        DescribeGroupsRequest(groups=[name]), DescribeGroupsResponse, version
    ).groups
    assert (described.group_id, described.group_state, described.members) == (name, "Dead", [])
    if version >= 6:
        assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert described.error_message == f"Group {name} not found."
    else:
        assert described.error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(3))
def test_groups_without_members_are_deleted(
    wire: Wire, group: str, simple: str, new_name: Callable[[], str], version: int
) -> None:
    nobody = new_name()
    request = DeleteGroupsRequest(groups_names=[group, simple, nobody, simple])
    results = wire.call(request, DeleteGroupsResponse, version).results
    assert {one.group_id: one.error_code for one in results} == {
        group: ErrorCode.NON_EMPTY_GROUP,
        simple: ErrorCode.NONE,
        nobody: ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert len(results) == 3
    groups = listed(wire)
    assert group in groups
    assert simple not in groups


def test_a_group_without_remaining_members_can_be_deleted(wire: Wire, group: str) -> None:
    (described,) = wire.call(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse).groups
    leave(wire, group, described.members[0].member_id)
    assert listed(wire)[group][1] == "Empty"
    request = DeleteGroupsRequest(groups_names=[group])
    (result,) = wire.call(request, DeleteGroupsResponse).results
    assert result.error_code == ErrorCode.NONE
    assert group not in listed(wire)
