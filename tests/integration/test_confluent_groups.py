"""confluent-kafka (librdkafka) in classic groups: every partition has exactly one reader.

Consumers join, leave, fail and return; tests wait for conditions, never for fixed times.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from support.brokers.bootstrap import REFERENCE, serving
from support.clients.killed_member import member_to_kill
from support.clients.librdkafka import everything, places, produce, until
from support.wire.topics import MakeTopic

DEADLINE_S = 60.0
POLL_S = 0.02
SESSION_MS = 6_000
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with serving(SETTINGS) as servers:
        yield servers


class Member:
    """A consumer in a group, with its assignment and the records it has read."""

    def __init__(self, bootstrap: str, group: str, topic: str, **config: object) -> None:
        self.read: list[Message] = []
        self.assignments = 0
        self.closed = False
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 300,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
                **config,
            }
        )
        self.consumer.subscribe([topic], on_assign=self._assigned)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignments += 1

    @property
    def owned(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            self.read.append(message)

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

        def start(topic: str, **config: object) -> Member:
            member = Member(bootstrap, group, topic, **config)
            opened.callback(member.close)
            return member

        yield start


def shared(members: list[Member], partitions: int, *, each: int | None = None) -> bool:
    """Whether every partition has one reader, and optionally equal counts per member."""
    owned = [member.owned for member in members]
    fair = each is None or all(len(one) == each for one in owned)
    return fair and sorted(part for one in owned for part in one) == list(range(partitions))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_members_share_partitions_and_one_takes_over_when_the_other_leaves(
    bootstrap: str, make_topic: MakeTopic, enter: Enter, strategy: str
) -> None:
    topic = make_topic(4)
    config = {"partition.assignment.strategy": strategy}
    first = enter(topic, **config)
    until([first], lambda: shared([first], 4), "the first member has everything")
    second = enter(topic, **config)
    both = [first, second]
    until(both, lambda: shared(both, 4, each=2), "both have half")
    produce(bootstrap, topic, range(4), 5)
    until(both, lambda: places(*both) == everything(4, 5), "everything is read")
    second.close()
    until([first], lambda: shared([first], 4), "the one that stayed has everything again")


def test_the_partitions_of_a_killed_member_move_to_the_others(
    bootstrap: str, make_topic: MakeTopic, enter: Enter, group: str
) -> None:
    if REFERENCE:
        pytest.skip("needs sessions shorter than Kafka allows by default")
    topic = make_topic(2)
    short = {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 300}
    with member_to_kill(bootstrap, group, topic, **short):
        survivor = enter(topic)
        until([survivor], lambda: len(survivor.owned) == 1, "they share")
    until([survivor], lambda: shared([survivor], 2), "the survivor has everything")


def test_a_group_resumes_from_its_committed_offsets(
    bootstrap: str, make_topic: MakeTopic, enter: Enter
) -> None:
    topic = make_topic(1)
    produce(bootstrap, topic, range(1), 20)
    first = enter(topic)
    until([first], lambda: len(first.read) >= 8, "some are read")
    first.consumer.commit(message=first.read[7], asynchronous=False)
    first.close()
    second = enter(topic)
    rest = {(0, offset) for offset in range(8, 20)}
    until([second], lambda: places(second) >= rest, "the rest is read")
    assert places(second) == rest


def test_a_surplus_member_has_no_partitions_until_another_leaves(
    make_topic: MakeTopic, enter: Enter
) -> None:
    topic = make_topic(1)
    members = [enter(topic) for _ in range(2)]

    def settled() -> bool:
        return shared(members, 1) and all(member.assignments for member in members)

    until(members, settled, "one has the partition, the other knows that it has none")
    (owner,) = [member for member in members if member.owned]
    (idle,) = [member for member in members if not member.owned]
    owner.close()
    until([idle], lambda: idle.owned == {0}, "the idle one takes over")


def test_added_partitions_are_read_from_their_first_record(
    bootstrap: str, make_topic: MakeTopic, enter: Enter
) -> None:
    topic = make_topic(1)
    member = enter(topic)
    until([member], lambda: member.owned == {0}, "the group has formed")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(DEADLINE_S)
    produce(bootstrap, topic, range(3), 4)
    until([member], lambda: member.owned == {0, 1, 2}, "the member has the new partitions")
    until([member], lambda: places(member) == everything(3, 4), "everything is read")


def test_a_static_member_returns_without_a_rebalance(make_topic: MakeTopic, enter: Enter) -> None:
    topic = make_topic(2)
    patient = {"session.timeout.ms": 30_000}
    stays = enter(topic, **patient, **{"group.instance.id": "stays"})
    goes = enter(topic, **patient, **{"group.instance.id": "goes"})
    until([stays, goes], lambda: shared([stays, goes], 2, each=1), "both have one")
    owned, rebalances = goes.owned, stays.assignments
    goes.close()  # a static member does not leave
    back = enter(topic, **patient, **{"group.instance.id": "goes"})
    until([stays, back], lambda: back.owned == owned, "it has its partition back")
    assert stays.assignments == rebalances
