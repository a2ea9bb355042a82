"""Share groups over the wire: membership, admin requests, state that survives a restart."""

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from headrace.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.protocol.messages.share_group_describe import (
    ShareGroupDescribeDescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from headrace.testing import Broker
from support.waiting import wait_for
from support.wire.batches import batch, produce, topic_id_of
from support.wire.connection import Wire
from support.wire.share_member import ShareMember, set_group_config, summary
from support.wire.topics import create_topic

ACCEPT, RELEASE, REJECT = 1, 2, 3
LOCK_MS = 30_000
LOADING = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Rig:
    """A topic, a group, and the requests about them."""

    def __init__(self, broker: Broker, partitions: int = 1) -> None:
        self.broker = broker
        self.group = f"g-{uuid.uuid4().hex}"
        self.topic = f"t-{uuid.uuid4().hex}"
        self.opened: list[Wire] = []
        self.wire = self.connect()
        create_topic(self.wire, self.topic, partitions)
        self.topic_id = topic_id_of(self.wire, self.topic)
        set_group_config(self.wire, self.group, share_auto_offset_reset="earliest")
        self.wire.call(
            FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group]),
            FindCoordinatorResponse,
        )

    def connect(self) -> Wire:
        self.opened.append(Wire(self.broker.bootstrap_servers))
        return self.opened[-1]

    def close(self) -> None:
        for wire in self.opened:
            wire.close()

    def beat(self, member: str, epoch: int, *topics: str) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
        )

        def answered() -> ShareGroupHeartbeatResponse | None:
            answer = self.wire.call(request, ShareGroupHeartbeatResponse)
            return None if answer.error_code in LOADING else answer

        return wait_for(answered, "the coordinator is there")

    def join(self, member: str) -> ShareMember:
        """Joins and reads the assigned partitions."""
        answer = self.beat(member, 0, self.topic)
        assert answer.error_code == 0, answer.error_message
        assert answer.assignment is not None
        (given,) = answer.assignment.topic_partitions
        assert bytes(given.topic_id) == self.topic_id
        partitions = tuple(given.partitions)
        return ShareMember(self.connect(), self.group, self.topic_id, member, partitions=partitions)

    def produce(self, *values: bytes) -> None:
        assert produce(self.wire, self.topic, batch(*values)).error_code == 0

    def describe(self) -> ShareGroupDescribeDescribedGroup:
        request = ShareGroupDescribeRequest(group_ids=[self.group])
        return self.wire.call(request, ShareGroupDescribeResponse).groups[0]

    def offsets(
        self,
        topics: dict[str, list[int]] | None = None,
        *,
        locks: bool = False,
        locks_only: bool = False,
    ) -> DescribeShareGroupOffsetsResponseGroup:
        named = None
        if topics is not None:
            named = [
                DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
                for name, partitions in topics.items()
            ]
        request = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=self.group, topics=named)],
            include_locks=locks,
            locks_only=locks_only,
        )
        return self.wire.call(request, DescribeShareGroupOffsetsResponse).groups[0]

    def start_and_lag(self) -> tuple[int, int]:
        (topic,) = self.offsets().topics
        return topic.partitions[0].start_offset, topic.partitions[0].lag

    def alter(self, topic: str, partition: int, offset: int) -> AlterShareGroupOffsetsResponse:
        return self.wire.call(
            AlterShareGroupOffsetsRequest(
                group_id=self.group,
                topics=[
                    AlterShareGroupOffsetsRequestTopic(
                        topic_name=topic,
                        partitions=[
                            AlterShareGroupOffsetsRequestPartition(
                                partition_index=partition, start_offset=offset
                            )
                        ],
                    )
                ],
            ),
            AlterShareGroupOffsetsResponse,
        )

    def delete_offsets(self, topic: str) -> DeleteShareGroupOffsetsResponse:
        return self.wire.call(
            DeleteShareGroupOffsetsRequest(
                group_id=self.group,
                topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic)],
            ),
            DeleteShareGroupOffsetsResponse,
        )

    def delete(self) -> int:
        request = DeleteGroupsRequest(groups_names=[self.group])
        return self.wire.call(request, DeleteGroupsResponse).results[0].error_code


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.share.assignment.interval.ms": "0"}) as broker:
        yield broker


@pytest.fixture
def make_rig(broker: Broker) -> Iterator[Callable[..., Rig]]:
    rigs: list[Rig] = []

    def make(partitions: int = 1, broker: Broker = broker) -> Rig:
        rigs.append(Rig(broker, partitions))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


def test_a_member_gets_partitions_when_it_joins(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(3)
    rig.produce(b"a")
    ann = rig.join("ann")
    assert sorted(ann.partitions) == [0, 1, 2]
    data = ann.fetch()
    assert [a.first_offset for a in data[0].acquired_records] == [0]


def test_a_group_is_described_and_listed(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.join("ann")
    described = rig.describe()
    assert (described.group_state, described.assignor_name) == ("Stable", "simple")
    (member,) = described.members
    assert (member.member_id, member.client_id) == ("ann", "tests")
    assert member.subscribed_topic_names == [rig.topic]
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == (rig.topic, [0])
    listed = rig.wire.call(ListGroupsRequest(types_filter=["share"]), ListGroupsResponse).groups
    assert rig.group in {group.group_id for group in listed}
    rig.beat("ann", -1)
    assert rig.describe().group_state == "Empty"


def test_unknown_groups_are_not_found(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    assert rig.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.beat("ann", 3).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.delete_offsets(rig.topic).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.delete() == ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.offsets().topics == []


def test_the_lag_excludes_acknowledged_records(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.produce(*[b"x"] * 10)
    ann = rig.join("ann")
    assert rig.start_and_lag() == (-1, -1)
    ann.acquire()
    ann.acknowledge((4, 5, [ACCEPT]))
    assert rig.start_and_lag() == (0, 8)
    ann.acknowledge((0, 3, [ACCEPT]))
    ann.acknowledge((6, 6, [REJECT]))
    assert rig.start_and_lag() == (6, 3)
    named = rig.offsets({rig.topic: [0, 7], "nope": [1]})
    starts = {
        (topic.topic_name, one.partition_index): one.start_offset
        for topic in named.topics
        for one in topic.partitions
    }
    assert starts == {(rig.topic, 0): 6, (rig.topic, 7): -1, ("nope", 1): -1}


def test_the_locks_of_members_are_described_on_request(make_rig: Callable[..., Rig]) -> None:
    """With holder, delivery count and the time that is left; other clients get Kafka's fields."""
    rig = make_rig()
    rig.produce(*[b"x"] * 6)
    ann, bob = rig.join("ann"), rig.join("bob")
    unread = rig.offsets(locks=True).topics[0].partitions[0]
    assert (unread.acquired_records, unread.available_records) == (0, -1)
    assert ann.acquire() == [(0, 5, 1)]
    ann.acknowledge((2, 3, [RELEASE]), (4, 4, [ACCEPT]))
    assert bob.acquire(max_records=1, strict=True) == [(2, 2, 2)]
    (topic,) = rig.offsets(locks=True).topics
    (found,) = topic.partitions
    assert [
        (lock.first_offset, lock.last_offset, lock.member_id, lock.delivery_count)
        for lock in found.locks
    ] == [(0, 1, "ann", 1), (2, 2, "bob", 2), (5, 5, "ann", 1)]
    assert all(0 < lock.expires_ms <= LOCK_MS for lock in found.locks)
    assert found.locks[0].expires_ms <= found.locks[1].expires_ms
    assert (found.acquired_records, found.omitted_locks, found.lag) == (4, 0, 5)
    assert (found.available_records, found.acknowledged_records) == (1, 1)
    assert (found.archiving_records, found.archived_records) == (0, 0)
    (other,) = rig.offsets().topics[0].partitions
    assert (other.acquired_records, other.available_records, other.locks) == (-1, -1, [])
    (topic,) = rig.offsets({rig.topic: [0, 7]}, locks_only=True).topics
    assert [(each.partition_index, each.start_offset) for each in topic.partitions] == [(0, -1)]
    assert topic.partitions[0].acquired_records == 4


def test_offsets_of_an_empty_group_can_be_altered(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.produce(*[b"x"] * 10)
    ann = rig.join("ann")
    ann.acquire()
    ann.acknowledge((0, 9, [ACCEPT]))
    assert rig.alter(rig.topic, 0, 3).error_code == ErrorCode.NON_EMPTY_GROUP
    ann.fetch(epoch=-1)
    rig.beat("ann", -1)
    altered = rig.alter(rig.topic, 0, 3)
    assert altered.error_code == 0
    assert altered.responses[0].partitions[0].error_code == 0
    assert rig.start_and_lag() == (3, 7)
    assert rig.join("bob").acquire() == [(3, 9, 1)]
    unknown = rig.alter(rig.topic, 9, 3)
    assert unknown.error_code == ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_a_new_group_can_be_set(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.produce(*[b"x"] * 5)
    code = rig.alter(rig.topic, 0, 2).responses[0].partitions[0].error_code
    assert code == 0
    unknown = rig.alter(rig.topic, 9, 3).responses[0].partitions[0]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rig.join("ann").acquire() == [(2, 4, 1)]


def test_a_group_restarts_after_its_offsets_are_deleted(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.produce(b"a", b"b")
    ann = rig.join("ann")
    ann.acquire()
    ann.acknowledge((0, 1, [ACCEPT]))
    assert rig.delete_offsets(rig.topic).error_code == ErrorCode.NON_EMPTY_GROUP
    ann.fetch(epoch=-1)
    rig.beat("ann", -1)
    (deleted,) = rig.delete_offsets(rig.topic).responses
    assert deleted.error_code == 0
    assert rig.offsets().topics == []
    (again,) = rig.delete_offsets(rig.topic).responses
    assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rig.join("bob").acquire() == [(0, 1, 1)]


def test_deleting_a_group_deletes_its_state(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.produce(b"a", b"b")
    ann = rig.join("ann")
    ann.acquire()
    ann.acknowledge((0, 0, [ACCEPT]))
    assert rig.delete() == ErrorCode.NON_EMPTY_GROUP
    ann.fetch(epoch=-1)
    rig.beat("ann", -1)
    assert rig.delete() == 0
    assert summary(rig.wire, rig.group, rig.topic_id).start_offset == -1
    assert rig.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.join("bob").acquire() == [(0, 1, 1)]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_accepted_records_stay_accepted_over_a_restart(
    make_rig: Callable[..., Rig], end: str
) -> None:
    with Broker(settings={"group.share.assignment.interval.ms": "0"}) as broker:
        rig = make_rig(1, broker)
        rig.produce(*[b"x"] * 6)
        ann = rig.join("ann")
        assert ann.acquire() == [(0, 5, 1)]
        ann.acknowledge((0, 1, [ACCEPT]), (3, 3, [ACCEPT]), (4, 4, [RELEASE]))
        getattr(broker, end)()
        broker.start()
        rig.wire = rig.connect()
        bob = rig.join("ann")
        seen: list[tuple[int, int, int]] = []

        def all_back() -> bool:
            seen.extend(bob.acquire(max_wait_ms=200))
            return sum(last - first + 1 for first, last, _ in seen) >= 3

        wait_for(all_back, "what was not accepted comes back")
        assert sorted(seen) == [(2, 2, 1), (4, 4, 2), (5, 5, 1)]


def test_nothing_is_lost_when_members_come_and_go(make_rig: Callable[..., Rig]) -> None:
    """Every record is accepted once although members drop their connections."""
    rig = make_rig()
    rig.produce(*[str(number).encode() for number in range(60)])
    accepted: list[int] = []
    members = 0
    give_up = time.monotonic() + 60
    while len(accepted) < 60 and time.monotonic() < give_up:
        members += 1
        member = rig.join(f"m{members}")
        for first, last, _ in member.acquire(max_records=7, strict=True, max_wait_ms=200):
            keep = min(last, first + 4)
            result = member.acknowledge((first, keep, [ACCEPT]))
            assert result.error_code == 0  # type: ignore[union-attr]
            accepted += range(first, keep + 1)
        member.wire.close()
    assert sorted(accepted) == list(range(60))
