"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over the wire, and offsets by epoch."""

from collections.abc import Callable, Iterator, Mapping

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from headrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headrace.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headrace.testing import Broker
from support.brokers.bootstrap import REFERENCE, serving
from support.waiting import wait_for
from support.wire.connection import Wire
from support.wire.topics import MakeTopic

DEADLINE_S = 60.0
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "50",
}
NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
GROUP_RESOURCE = 32
NewName = Callable[[], str]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with serving(SETTINGS) as servers:
        yield servers


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    """Uses a longer timeout: the first request makes the broker import many modules."""
    with Wire(bootstrap, timeout_s=DEADLINE_S) as connection:
        yield connection


class Member:
    """A member that sends the given fields and records the responses."""

    def __init__(self, wire: Wire, group: str, member_id: str) -> None:
        self.wire = wire
        self.group = group
        self.member_id = member_id
        self.epoch = 0
        self.assigned: dict[bytes, list[int]] = {}

    def beat(self, *, version: int = 1, **fields: object) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch
        )
        for name, value in fields.items():
            setattr(request, name, value)
        answer = self.wire.call(request, ConsumerGroupHeartbeatResponse, version)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            self.member_id = answer.member_id or self.member_id
            if answer.assignment is not None:
                self.assigned = {
                    one.topic_id: sorted(one.partitions)
                    for one in answer.assignment.topic_partitions
                }
        return answer

    def join(self, *topics: str, **fields: object) -> ConsumerGroupHeartbeatResponse:
        self.epoch = 0
        options: dict[str, object] = {
            "subscribed_topic_names": list(topics),
            "rebalance_timeout_ms": 60_000,
            "topic_partitions": [],
        }
        return self.beat(**(options | fields))  # type: ignore[arg-type]

    def report(self) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat that reports the last received assignment as owned."""
        return self.beat(
            topic_partitions=[
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=id_, partitions=numbers)
                for id_, numbers in self.assigned.items()
            ]
        )

    @property
    def size(self) -> int:
        return sum(map(len, self.assigned.values()))

    def commit(self, topic: str, *, epoch: int | None = None, version: int = 9) -> ErrorCode:
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=self.member_id,
            generation_id_or_member_epoch=self.epoch if epoch is None else epoch,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic, partitions=[OffsetCommitRequestPartition(committed_offset=7)]
                )
            ],
        )
        (answer,) = self.wire.call(request, OffsetCommitResponse, version).topics
        return ErrorCode(answer.partitions[0].error_code)

    def fetch(self, topic: str, *, epoch: int | None = None) -> tuple[ErrorCode, list[int]]:
        asked = OffsetFetchRequestGroup(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
        )
        (answer,) = self.wire.call(
            OffsetFetchRequest(groups=[asked]), OffsetFetchResponse, 9
        ).groups
        offsets = [part.committed_offset for one in answer.topics for part in one.partitions]
        return ErrorCode(answer.error_code), offsets


@pytest.fixture
def group(wire: Wire, new_name: NewName) -> str:
    """A group id whose coordinator is available and loaded."""
    name = new_name()

    def found() -> bool:
        request = FindCoordinatorRequest(key=name, key_type=0)
        answer = wire.call(request, FindCoordinatorResponse, 3)
        return answer.error_code == ErrorCode.NONE

    def loaded() -> bool:
        answer = Member(wire, name, "nobody").beat(member_epoch=1)
        return answer.error_code not in NOT_READY

    wait_for(found, "the group has a coordinator", deadline_s=DEADLINE_S)
    wait_for(loaded, "the coordinator is loaded", deadline_s=DEADLINE_S)
    return name


Enter = Callable[[str], Member]


@pytest.fixture
def member(wire: Wire, group: str) -> Enter:
    return lambda member_id: Member(wire, group, member_id)


def settle(*members: Member, until: Callable[[], bool]) -> None:
    """Members report their partitions until the condition is true."""

    def reported() -> bool:
        for one in members:
            assert one.report().error_code == ErrorCode.NONE
        return until()

    wait_for(reported, "the group has settled", deadline_s=DEADLINE_S)


@pytest.mark.parametrize("version", [0, 1])
def test_one_member_joins_heartbeats_and_leaves_in_every_version(
    member: Enter, make_topic: MakeTopic, version: int
) -> None:
    one = member("" if version == 0 else "m")
    answer = one.join(make_topic(3), version=version)
    assert answer.error_code == ErrorCode.NONE
    assert answer.error_message is None
    assert answer.member_id
    assert answer.heartbeat_interval_ms > 0
    assert list(one.assigned.values()) == [[0, 1, 2]]
    answer = one.beat(version=version)
    assert answer.assignment is None
    assert answer.member_epoch == one.epoch > 0
    answer = one.beat(version=version, member_epoch=-1)
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, -1)
    gone = one.beat(version=version, member_epoch=1)
    assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_two_members_never_own_the_same_partition(member: Enter, make_topic: MakeTopic) -> None:
    topic = make_topic(4)
    first, second = member("first"), member("second")
    first.join(topic)
    second.join(topic)
    assert second.size == 0, "the first one has not given back yet"
    settle(first, second, until=lambda: first.size == second.size == 2)
    (mine,), (yours,) = first.assigned.values(), second.assigned.values()
    assert sorted(mine + yours) == [0, 1, 2, 3]
    assert first.epoch == second.epoch


def test_added_partitions_are_assigned(wire: Wire, member: Enter, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    one = member("m")
    one.join(topic)
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=3, assignments=None)],
        timeout_ms=10_000,
    )
    (grown,) = wire.call(request, CreatePartitionsResponse).results
    assert grown.error_code == ErrorCode.NONE
    settle(one, until=lambda: one.size == 3)


def test_a_pattern_is_matched_by_the_broker(member: Enter, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    one = member("m")
    answer = one.join(subscribed_topic_regex=f"{topic[:-1]}.")
    assert answer.error_code == ErrorCode.NONE
    settle(one, until=lambda: one.size == 2)


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        (
            {"rebalance_timeout_ms": -1},
            ErrorCode.INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"member_epoch": -5}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        ({"server_assignor": "none"}, ErrorCode.UNSUPPORTED_ASSIGNOR, "none is not supported"),
        (
            {"subscribed_topic_regex": "a("},
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "`a(` is not a valid regular expression",
        ),
        ({"member_epoch": 5}, ErrorCode.GROUP_ID_NOT_FOUND, "not found"),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "not found"),
    ],
)
def test_errors_include_the_reason(
    member: Enter, fields: Mapping[str, object], code: ErrorCode, words: str
) -> None:
    answer = member("m").join("t", **fields)
    assert ErrorCode(answer.error_code) is code
    assert words in (answer.error_message or "")


def test_members_are_fenced_by_their_epochs(member: Enter, make_topic: MakeTopic) -> None:
    one = member("m")
    one.join(make_topic())
    assert one.beat(member_epoch=99).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert one.beat(member_id="x").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_returns_to_its_assignment(member: Enter, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    old, new = member("old"), member("new")
    old.join(topic, instance_id="i")
    assert new.join(topic, instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    left = old.beat(instance_id="i", member_epoch=-2)
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -2)
    assert new.join(topic, instance_id="i").error_code == ErrorCode.NONE
    assert new.size == 2
    assert old.beat(instance_id="i", member_epoch=2).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_commits_and_fetches_are_checked_against_the_epoch(
    member: Enter, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    one = member("m")
    one.join(topic)
    assert one.commit(topic) is ErrorCode.NONE
    assert one.commit(topic, epoch=one.epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert one.commit(topic, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert one.fetch(topic) == (ErrorCode.NONE, [7])
    assert one.fetch(topic, epoch=one.epoch + 1)[0] is ErrorCode.STALE_MEMBER_EPOCH
    stranger = Member(one.wire, one.group, "stranger")
    assert stranger.commit(topic, epoch=one.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.fetch(topic, epoch=one.epoch)[0] is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [0, 1])
def test_a_group_is_described(
    wire: Wire, group: str, member: Enter, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic(2)
    member("m").join(topic, server_assignor="range", rack_id="r")
    request = ConsumerGroupDescribeRequest(group_ids=[group, "missing"])
    found, missing = wire.call(request, ConsumerGroupDescribeResponse, version).groups
    assert (found.group_state, found.assignor_name) == ("Stable", "range")
    assert found.group_epoch == found.assignment_epoch
    (one,) = found.members
    assert (one.member_id, one.rack_id, one.client_id) == ("m", "r", "tests")
    assert one.client_host == "/127.0.0.1"
    assert one.member_type == (1 if version else -1)
    (assigned,) = one.assignment.topic_partitions
    assert (assigned.topic_name, sorted(assigned.partitions)) == (topic, [0, 1])
    assert one.target_assignment.topic_partitions[0].topic_name == topic
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_listed_with_its_type(
    wire: Wire, group: str, member: Enter, make_topic: MakeTopic
) -> None:
    member("m").join(make_topic())
    asked = ListGroupsRequest(types_filter=["consumer"], states_filter=["Stable"])
    listed = {one.group_id: one for one in wire.call(asked, ListGroupsResponse).groups}
    assert listed[group].group_type == "consumer"
    assert listed[group].protocol_type == "consumer"
    classic = wire.call(ListGroupsRequest(types_filter=["classic"]), ListGroupsResponse).groups
    assert group not in {one.group_id for one in classic}
    (described,) = wire.call(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse).groups
    assert (described.error_code, described.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


def test_a_group_can_override_its_heartbeat_interval(
    wire: Wire, group: str, member: Enter, make_topic: MakeTopic
) -> None:
    one = member("m")
    one.join(make_topic())
    change = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=GROUP_RESOURCE,
        resource_name=group,
        configs=[
            IncrementalAlterConfigsAlterableConfig(
                name="consumer.heartbeat.interval.ms", config_operation=0, value="900"
            )
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[change])
    (altered,) = wire.call(request, IncrementalAlterConfigsResponse).responses
    assert altered.error_code == ErrorCode.NONE, altered.error_message
    wait_for(lambda: one.beat().heartbeat_interval_ms == 900, "the interval has changed")


def test_a_broker_without_the_protocol_returns_unsupported_version() -> None:
    if REFERENCE:
        pytest.skip("needs a Headrace broker of its own")
    with (
        Broker(settings={"group.coordinator.rebalance.protocols": "classic"}) as broker,
        Wire(broker.bootstrap_servers, timeout_s=DEADLINE_S) as wire,
    ):
        answer = Member(wire, "g", "m").join("t")
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        request = ConsumerGroupDescribeRequest(group_ids=["g"])
        (described,) = wire.call(request, ConsumerGroupDescribeResponse).groups
        assert described.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_members_continue_after_a_broker_restart(new_name: NewName) -> None:
    if REFERENCE:
        pytest.skip("needs a Headrace broker of its own")
    group = new_name()
    with Broker(settings=SETTINGS) as broker:
        with Wire(broker.bootstrap_servers, timeout_s=DEADLINE_S) as wire:
            wire.call(FindCoordinatorRequest(key=group, key_type=0), FindCoordinatorResponse, 3)
            one = Member(wire, group, "m")
            wait_for(
                lambda: one.join("t").error_code == ErrorCode.NONE,
                "the member has joined",
                deadline_s=DEADLINE_S,
            )
        broker.restart()
        with Wire(broker.bootstrap_servers, timeout_s=DEADLINE_S) as wire:
            one.wire = wire
            epoch = one.epoch
            wait_for(
                lambda: one.beat().error_code == ErrorCode.NONE,
                "the member is known",
                deadline_s=DEADLINE_S,
            )
            assert one.epoch == epoch
