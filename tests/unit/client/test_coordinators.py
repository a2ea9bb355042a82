"""Requests to coordinators and leaders, which are found, cached, and found again after a move."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from headrace.client.admin.groups import assigned_partitions, delete_groups, describe_group
from headrace.client.admin.offsets import list_offsets
from headrace.client.client import ClusterClient
from headrace.client.coordinators import CoordinatorKind, CoordinatorNode
from headrace.client.errors import DeadlineExceeded, RequestRefused
from headrace.client.network.retry import Backoff
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from headrace.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from headrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from headrace.protocol.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsDescribedGroup,
    DescribeGroupsResponse,
)
from headrace.protocol.messages.find_coordinator import (
    Coordinator as FoundCoordinator,
)
from headrace.protocol.messages.find_coordinator import FindCoordinatorResponse
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

Make = Callable[..., Any]
QUICK = Backoff(initial_s=0.001, max_s=0.005)
TIMEOUT_S = 20.0


def client_of(broker: Any) -> ClusterClient:
    return ClusterClient(
        broker.address, client_id="test", clock=SystemClock(), random=Random(1), backoff=QUICK
    )


def coordinated_by(*brokers: Any) -> Callable[[Any, int], FindCoordinatorResponse]:
    """Returns one value after the other, then repeats the last one."""
    turns = list(brokers)

    def answer(request: Any, version: int) -> FindCoordinatorResponse:
        broker = turns.pop(0) if len(turns) > 1 else turns[0]
        if version < 4:
            return FindCoordinatorResponse(
                node_id=broker.node_id, host="127.0.0.1", port=broker.port
            )
        (key,) = request.coordinator_keys
        found = FoundCoordinator(
            key=key, node_id=broker.node_id, host="127.0.0.1", port=broker.port
        )
        return FindCoordinatorResponse(coordinators=[found])

    return answer


def test_a_coordinator_is_found_once_and_again_when_it_has_moved(make_broker: Make) -> None:
    async def run() -> None:
        async with make_broker(1) as one, make_broker(2) as two, client_of(one) as client:
            one.handlers[ApiKey.FIND_COORDINATOR] = coordinated_by(one, two)
            two.handlers[ApiKey.FIND_COORDINATOR] = coordinated_by(two)
            moved = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
            one.handlers[ApiKey.HEARTBEAT] = lambda request, version: moved
            two.handlers[ApiKey.HEARTBEAT] = lambda request, version: HeartbeatResponse()
            for _ in range(3):
                answer = await client.send(
                    HeartbeatRequest(group_id="g"), HeartbeatResponse, to=CoordinatorNode("g")
                )
                assert answer.error_code == 0
            assert one.count(ApiKey.HEARTBEAT) == 1
            assert two.count(ApiKey.HEARTBEAT) == 3
            asked = one.count(ApiKey.FIND_COORDINATOR) + two.count(ApiKey.FIND_COORDINATOR)
            assert asked == 2

    asyncio.run(run())


def test_an_old_broker_gets_a_request_for_one_key(make_broker: Make) -> None:
    async def run() -> None:
        async with make_broker(1) as one, client_of(one) as client:
            served = [
                ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
                ApiVersion(api_key=ApiKey.FIND_COORDINATOR, min_version=0, max_version=2),
                ApiVersion(api_key=ApiKey.HEARTBEAT, min_version=0, max_version=3),
            ]
            one.handlers[ApiKey.API_VERSIONS] = lambda request, version: ApiVersionsResponse(
                api_keys=served
            )
            one.handlers[ApiKey.FIND_COORDINATOR] = coordinated_by(one)
            one.handlers[ApiKey.HEARTBEAT] = lambda request, version: HeartbeatResponse()
            target = CoordinatorNode("t", CoordinatorKind.TRANSACTION)
            await client.send(HeartbeatRequest(), HeartbeatResponse, to=target)
            assert (ApiKey.FIND_COORDINATOR, 2) in one.seen

    asyncio.run(run())


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, RequestRefused),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, DeadlineExceeded),
    ],
)
def test_a_refused_coordinator_is_an_error_and_an_unavailable_one_is_retried(
    make_broker: Make, code: ErrorCode, kind: type[Exception]
) -> None:
    async def run() -> None:
        async with make_broker(1) as one, client_of(one) as client:
            refused = FoundCoordinator(key="g", error_code=code)
            one.handlers[ApiKey.FIND_COORDINATOR] = lambda request, version: (
                FindCoordinatorResponse(coordinators=[refused])
            )
            with pytest.raises(kind, match=code.name):
                await client.send(
                    HeartbeatRequest(), HeartbeatResponse, to=CoordinatorNode("g"), timeout_s=0.5
                )

    asyncio.run(run())


def test_a_classic_group_is_described_by_the_classic_api(make_broker: Make) -> None:
    member = DescribedGroupMember(member_id="m", client_id="c", client_host="/h")

    async def run() -> None:
        async with make_broker(1) as one, client_of(one) as client:
            one.handlers[ApiKey.API_VERSIONS] = lambda request, version: ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
                    ApiVersion(api_key=ApiKey.FIND_COORDINATOR, min_version=0, max_version=6),
                    ApiVersion(api_key=ApiKey.DESCRIBE_GROUPS, min_version=0, max_version=5),
                ]
            )
            one.handlers[ApiKey.FIND_COORDINATOR] = coordinated_by(one)
            described = DescribeGroupsDescribedGroup(
                group_id="g", group_state="Stable", protocol_type="consumer", members=[member]
            )
            one.handlers[ApiKey.DESCRIBE_GROUPS] = lambda request, version: DescribeGroupsResponse(
                groups=[described]
            )
            found = await describe_group(client, "g", timeout_s=TIMEOUT_S)
            assert not isinstance(found, Refusal)
            assert (found.kind, found.state, len(found.members)) == ("classic", "Stable", 1)
            dead = DescribeGroupsDescribedGroup(group_id="g", group_state="Dead")
            one.handlers[ApiKey.DESCRIBE_GROUPS] = lambda request, version: DescribeGroupsResponse(
                groups=[dead]
            )
            gone = await describe_group(client, "g", timeout_s=TIMEOUT_S)
            assert isinstance(gone, Refusal)
            assert gone.code is ErrorCode.GROUP_ID_NOT_FOUND

    asyncio.run(run())


def test_consumer_assignments_are_decoded_and_other_bytes_ignored() -> None:
    topics = [ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[0, 2])]
    body = ConsumerProtocolAssignment(assigned_partitions=topics).encode(0)
    for version in (b"\0\0", b"\0\7"):  # a newer version may append fields
        member = DescribedGroupMember(member_assignment=version + body)
        assert assigned_partitions(member) == (TopicPartition("t", 0), TopicPartition("t", 2))
    for junk in (b"", b"\0", b"\xff\xff", b"\0\0\0\0\0\x09junk"):
        assert assigned_partitions(DescribedGroupMember(member_assignment=junk)) == ()


def test_one_group_that_cannot_be_deleted_does_not_affect_the_others(make_broker: Make) -> None:
    async def run() -> None:
        async with make_broker(1) as one, client_of(one) as client:
            one.handlers[ApiKey.FIND_COORDINATOR] = coordinated_by(one)

            def delete(request: Any, version: int) -> DeleteGroupsResponse:
                (name,) = request.groups_names
                code = ErrorCode.NON_EMPTY_GROUP if name == "busy" else 0
                result = DeletableGroupResult(group_id=name, error_code=code)
                return DeleteGroupsResponse(results=[result])

            one.handlers[ApiKey.DELETE_GROUPS] = delete
            done = await delete_groups(client, ["idle", "busy"], timeout_s=TIMEOUT_S)
            assert done["idle"] is None
            busy = done["busy"]
            assert busy is not None
            assert busy.code is ErrorCode.NON_EMPTY_GROUP

    asyncio.run(run())


def test_requests_go_to_leaders_and_again_to_new_leaders(make_broker: Make) -> None:
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 9)]

    def offsets(broker: Any, led: dict[int, int]) -> Callable[[Any, int], ListOffsetsResponse]:
        def answer(request: Any, version: int) -> ListOffsetsResponse:
            found = [
                ListOffsetsPartitionResponse(
                    partition_index=each.partition_index,
                    offset=led.get(each.partition_index, -1),
                    error_code=0
                    if each.partition_index in led
                    else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                )
                for each in request.topics[0].partitions
            ]
            return ListOffsetsResponse(
                topics=[ListOffsetsTopicResponse(name="t", partitions=found)]
            )

        return answer

    async def run() -> None:
        async with make_broker(1) as one, make_broker(2) as two, client_of(one) as client:
            layouts = [{"t": [1, 1]}, {"t": [1, 2]}]
            for broker in (one, two):
                broker.handlers[ApiKey.METADATA] = lambda request, version: one.layout(
                    layouts.pop(0) if len(layouts) > 1 else layouts[0], two
                )
            one.handlers[ApiKey.LIST_OFFSETS] = offsets(one, {0: 10})
            two.handlers[ApiKey.LIST_OFFSETS] = offsets(two, {1: 20})
            found = await list_offsets(client, dict.fromkeys(partitions, -1), timeout_s=TIMEOUT_S)
            assert [getattr(found[each], "offset", None) for each in partitions] == [10, 20, None]
            missing = found[partitions[2]]
            assert isinstance(missing, Refusal)
            assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    asyncio.run(run())
