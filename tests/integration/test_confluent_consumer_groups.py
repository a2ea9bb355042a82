"""confluent-kafka (librdkafka) with `group.protocol=consumer` (KIP-848), alone and with members
of the classic protocol while a group moves from one to the other.

Consumers join, leave, fail and return; tests wait for conditions, never for fixed times.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, Message
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from support.brokers.bootstrap import serving
from support.clients.killed_member import member_to_kill
from support.clients.librdkafka import everything, places, produce, until
from support.wire.connection import Wire
from support.wire.topics import MakeTopic

DEADLINE_S = 60.0
POLL_S = 0.02
GROUP_RESOURCE = 32
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.session.timeout.ms": "15000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}
NEW: dict[str, object] = {"group.protocol": "consumer"}
CLASSIC: dict[str, object] = {
    "group.protocol": "classic",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 100,
    "partition.assignment.strategy": "range",
}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with serving(SETTINGS) as servers:
        yield servers


class Member:
    """A consumer in a group, with the records it has read."""

    def __init__(
        self, bootstrap: str, group: str, topics: list[str], config: dict[str, object]
    ) -> None:
        self.read: list[Message] = []
        self.closed = False
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **config,
            }
        )
        self.consumer.subscribe(topics)

    @property
    def owned(self) -> set[tuple[str, int]]:
        return {(one.topic, one.partition) for one in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(POLL_S)
        if message is None:
            return
        error = message.error()
        if error is None:
            self.read.append(message)
        else:
            assert not error.fatal(), error

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.consumer.close()


Enter = Callable[..., Member]


@pytest.fixture
def group(new_name: Callable[[], str]) -> str:
    return new_name()


@pytest.fixture
def enter(bootstrap: str, group: str) -> Iterator[Enter]:
    """Members of the test's group."""
    with ExitStack() as opened:

        def start(*topics: str, config: dict[str, object] = NEW, **more: object) -> Member:
            member = Member(bootstrap, group, list(topics), config | more)
            opened.callback(member.close)
            return member

        yield start


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def shared(members: list[Member], topic: str, partitions: int) -> Callable[[], bool]:
    """Whether every partition has one reader and every member a fair share."""

    def fair() -> bool:
        owned = [member.owned for member in members]
        sizes = sorted(map(len, owned))
        return sizes[-1] - sizes[0] <= 1 and sorted(part for one in owned for part in one) == [
            (topic, number) for number in range(partitions)
        ]

    return fair


def set_session_timeout(bootstrap: str, group: str, timeout_ms: int) -> None:
    """Set for this group only: other groups must not lose members on a slow machine."""
    change = IncrementalAlterConfigsAlterableConfig(
        name="consumer.session.timeout.ms", config_operation=0, value=str(timeout_ms)
    )
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=[change]
    )
    with Wire(bootstrap, timeout_s=DEADLINE_S) as wire:
        (answer,) = wire.call(
            IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
        ).responses
    assert answer.error_code == ErrorCode.NONE, answer.error_message


def kind(admin: AdminClient, group: str) -> ConsumerGroupType | None:
    listed = admin.list_consumer_groups().result(DEADLINE_S)
    return next((one.type for one in listed.valid if one.group_id == group), None)


def test_members_share_the_partitions_as_they_come_and_go(
    enter: Enter, make_topic: MakeTopic
) -> None:
    topic = make_topic(6)
    members = [enter(topic)]
    until(members, shared(members, topic, 6), "one member has all partitions")
    members.append(enter(topic))
    until(members, shared(members, topic, 6), "two members share them")
    members.append(enter(topic))
    until(members, shared(members, topic, 6), "three members share them")
    members.pop(0).close()
    until(members, shared(members, topic, 6), "two members share them again")


def test_a_group_resumes_from_its_committed_offsets(
    bootstrap: str, enter: Enter, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    produce(bootstrap, topic, range(2), 10)
    first = enter(topic)
    until([first], lambda: places(first) == everything(2, 10), "all is read")
    first.consumer.commit(asynchronous=False)
    first.close()
    produce(bootstrap, topic, range(2), 5)
    second = enter(topic)
    rest = everything(2, 15) - everything(2, 10)
    until([second], lambda: places(second) >= rest, "the rest is read")
    assert places(second) == rest


@pytest.mark.slow
def test_the_partitions_of_a_killed_member_are_reassigned(
    bootstrap: str, group: str, enter: Enter, make_topic: MakeTopic
) -> None:
    set_session_timeout(bootstrap, group, 2_000)
    topic = make_topic(4)
    produce(bootstrap, topic, range(4), 3)
    with member_to_kill(bootstrap, group, topic, **NEW):
        member = enter(topic)
        until([member], lambda: bool(member.owned), "it has a share")
    until([member], shared([member], topic, 4), "it has everything")
    until([member], lambda: places(member) == everything(4, 3), "everything is read")


def test_added_partitions_are_read_from_their_first_message(
    bootstrap: str, enter: Enter, make_topic: MakeTopic, admin: AdminClient
) -> None:
    topic = make_topic(1)
    produce(bootstrap, topic, range(1), 5)
    member = enter(topic, **{"auto.offset.reset": "earliest"})
    until([member], lambda: places(member) == everything(1, 5), "the first partition is read")
    (grown,) = admin.create_partitions([NewPartitions(topic, 3)]).values()
    grown.result(DEADLINE_S)
    produce(bootstrap, topic, range(1, 3), 5)
    until([member], lambda: places(member) == everything(3, 5), "the new ones are read as well")


def test_a_pattern_matches_topics_created_later(
    enter: Enter, new_name: Callable[[], str], admin: AdminClient
) -> None:
    prefix = new_name()
    (made,) = admin.create_topics([NewTopic(f"{prefix}-a", 1, 1)]).values()
    made.result(DEADLINE_S)
    member = enter(f"^{prefix}-.*")
    until([member], lambda: member.owned == {(f"{prefix}-a", 0)}, "the first topic is found")
    (made,) = admin.create_topics([NewTopic(f"{prefix}-b", 2, 1)]).values()
    made.result(DEADLINE_S)
    both = {(f"{prefix}-a", 0), (f"{prefix}-b", 0), (f"{prefix}-b", 1)}
    until([member], lambda: member.owned == both, "the second topic is found")


def test_the_range_assignor_can_be_selected(enter: Enter, make_topic: MakeTopic) -> None:
    topics = [make_topic(2), make_topic(2)]
    members = [enter(*topics, **{"group.remote.assignor": "range"}) for _ in range(2)]

    def co_partitioned() -> bool:
        numbers = [{part for _, part in member.owned} for member in members]
        return all(len(member.owned) == 2 for member in members) and sorted(
            map(sorted, numbers)
        ) == [[0], [1]]

    until(members, co_partitioned, "each has the same partition of both topics")


def test_a_static_member_returns_to_its_partitions(enter: Enter, make_topic: MakeTopic) -> None:
    topic = make_topic(4)
    static, other = enter(topic, **{"group.instance.id": "s"}), enter(topic)
    until([static, other], shared([static, other], topic, 4), "both have a share")
    had = static.owned
    static.close()
    back = enter(topic, **{"group.instance.id": "s"})
    until([back, other], shared([back, other], topic, 4), "both have a share again")
    assert back.owned == had


def test_a_classic_group_is_upgraded_and_downgraded_with_live_members(
    bootstrap: str, group: str, enter: Enter, make_topic: MakeTopic, admin: AdminClient
) -> None:
    """A rolling upgrade and downgrade, member by member, misses no record."""
    topic = make_topic(4)
    produce(bootstrap, topic, range(4), 5)
    everybody = [enter(topic, config=CLASSIC), enter(topic, config=CLASSIC)]
    members = list(everybody)

    def replace(config: dict[str, object], what: str) -> None:
        members.append(enter(topic, config=config))
        everybody.append(members[-1])
        until(members, shared(members, topic, 4), f"{what}: one more")
        members.pop(0).close()
        until(members, shared(members, topic, 4), f"{what}: one less")

    until(members, shared(members, topic, 4), "two classic members share the topic")
    assert kind(admin, group) is ConsumerGroupType.CLASSIC
    replace(NEW, "half new")
    assert kind(admin, group) is ConsumerGroupType.CONSUMER
    replace(NEW, "all new")
    produce(bootstrap, topic, range(4), 5)
    replace(CLASSIC, "half classic")
    assert kind(admin, group) is ConsumerGroupType.CONSUMER
    replace(CLASSIC, "all classic")
    assert kind(admin, group) is ConsumerGroupType.CLASSIC
    until(members, lambda: places(*everybody) == everything(4, 10), "everything is read")
