"""OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit over the wire, in all versions."""

from collections.abc import Callable, Iterator

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from headrace.protocol.types import ZERO_UUID
from headrace.testing import Broker
from support.brokers.bootstrap import AT_ONCE, serving
from support.brokers.processes import Spawn
from support.waiting import wait_for
from support.wire.connection import Wire
from support.wire.groups import join, sync, wait_for_coordinator
from support.wire.topics import MakeTopic, create_topic

FIRST_THAT_ADDS_THE_GROUP = 5
BY_NAME = 9
BY_ID = 10
NO_ERROR = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A separate broker on which groups form at once."""
    with serving(AT_ONCE) as servers:
        yield servers


@pytest.fixture
def group(wire: Wire, new_name: Callable[[], str]) -> str:
    name = new_name()
    wait_for_coordinator(wire, name)
    return name


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(partitions=2)


def topic_id(wire: Wire, name: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    return wire.call(request, MetadataResponse).topics[0].topic_id


def commit(
    wire: Wire,
    group: str,
    topic: str,
    offsets: dict[int, int],
    *,
    version: int = BY_NAME,
    id_: bytes = ZERO_UUID,
    member_id: str = "",
    generation: int = -1,
    metadata: str | None = "",
) -> dict[int, ErrorCode]:
    """The error code of each partition."""
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=id_,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                    for index, offset in offsets.items()
                ],
            )
        ],
    )
    (answer,) = wire.call(request, OffsetCommitResponse, version).topics
    assert (answer.name, answer.topic_id) == ((topic, ZERO_UUID) if version < BY_ID else ("", id_))
    return {one.partition_index: ErrorCode(one.error_code) for one in answer.partitions}


def fetch(wire: Wire, group: str, topic: str, *partitions: int) -> dict[int, int]:
    """Offsets by name."""
    asked = OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])], require_stable=False
    )
    (answer,) = wire.call(request, OffsetFetchResponse, BY_NAME).groups
    assert answer.error_code == NO_ERROR
    return {one.partition_index: one.committed_offset for one in answer.topics[0].partitions}


# OffsetCommit


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_are_committed_by_name(wire: Wire, group: str, topic: str, version: int) -> None:
    codes = commit(wire, group, topic, {0: 5, 1: 6, 2: 7}, version=version)
    assert codes == {0: NO_ERROR, 1: NO_ERROR, 2: UNKNOWN}
    assert fetch(wire, group, topic, 0, 1, 2) == {0: 5, 1: 6, 2: -1}


def test_offsets_are_committed_by_id(wire: Wire, group: str, topic: str) -> None:
    known = commit(wire, group, "", {0: 5, 2: 7}, version=BY_ID, id_=topic_id(wire, topic))
    unknown = commit(wire, group, "", {0: 5}, version=BY_ID, id_=b"?" * 16)
    assert known == {0: NO_ERROR, 2: UNKNOWN}
    assert unknown == {0: ErrorCode.UNKNOWN_TOPIC_ID}
    assert fetch(wire, group, topic, 0) == {0: 5}


def test_offsets_of_an_unknown_topic_are_rejected(wire: Wire, group: str) -> None:
    assert commit(wire, group, "there-is-none", {0: 5}) == {0: UNKNOWN}


def test_oversized_metadata_is_rejected(wire: Wire, group: str, topic: str) -> None:
    assert commit(wire, group, topic, {0: 5}, metadata="x" * 4096) == {0: NO_ERROR}
    codes = commit(wire, group, topic, {0: 6}, metadata="x" * 4097)
    assert codes == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert fetch(wire, group, topic, 0) == {0: 5}


def test_a_generation_without_a_group_is_rejected(wire: Wire, group: str, topic: str) -> None:
    old = commit(wire, group, topic, {0: 5}, member_id="m", generation=1, version=8)
    new = commit(wire, group, topic, {0: 5}, member_id="m", generation=1, version=9)
    assert (old, new) == (
        {0: ErrorCode.ILLEGAL_GENERATION},
        {0: ErrorCode.GROUP_ID_NOT_FOUND},
    )


def test_a_member_can_commit_only_with_its_current_generation(
    wire: Wire, group: str, topic: str
) -> None:
    member, generation = join(wire, group, topic)
    early = commit(wire, group, topic, {0: 5}, member_id=member, generation=generation)
    assert early == {0: ErrorCode.REBALANCE_IN_PROGRESS}
    sync(wire, group, member, generation)
    assert commit(wire, group, topic, {0: 5}, member_id=member, generation=generation) == {
        0: NO_ERROR
    }
    late = commit(wire, group, topic, {0: 6}, member_id=member, generation=generation - 1)
    assert late == {0: ErrorCode.ILLEGAL_GENERATION}
    stranger = commit(wire, group, topic, {0: 6}, member_id="x", generation=generation)
    assert stranger == {0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert commit(wire, group, topic, {0: 6}) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert fetch(wire, group, topic, 0) == {0: 5}


# OffsetFetch


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_of_one_group_are_fetched(wire: Wire, group: str, topic: str, version: int) -> None:
    commit(wire, group, topic, {0: 5}, metadata="text")
    asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])]
    answer = wire.call(
        OffsetFetchRequest(group_id=group, topics=asked), OffsetFetchResponse, version
    )
    assert answer.error_code == NO_ERROR
    (found,) = answer.topics
    assert [(one.committed_offset, one.metadata) for one in found.partitions] == [
        (5, "text"),
        (-1, ""),
    ]


@pytest.mark.parametrize("version", range(2, 8))
def test_all_offsets_of_a_group_are_fetched(
    wire: Wire, group: str, topic: str, version: int
) -> None:
    commit(wire, group, topic, {0: 5, 1: 6})
    request = OffsetFetchRequest(group_id=group, topics=None)
    (found,) = wire.call(request, OffsetFetchResponse, version).topics
    assert found.name == topic
    assert {one.partition_index: one.committed_offset for one in found.partitions} == {0: 5, 1: 6}


@pytest.mark.parametrize("version", [8, 9, 10])
def test_offsets_of_many_groups_are_fetched(
    wire: Wire, group: str, topic: str, new_name: Callable[[], str], version: int
) -> None:
    other, nobody = new_name(), new_name()
    commit(wire, group, topic, {0: 5})
    commit(wire, other, topic, {0: 6})
    id_ = topic_id(wire, topic) if version >= BY_ID else ZERO_UUID
    named = OffsetFetchRequestTopics(name=topic, topic_id=id_, partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id=group, topics=[named]),
            OffsetFetchRequestGroup(group_id=other, topics=None),
            OffsetFetchRequestGroup(group_id=nobody, topics=None),
        ]
    )
    answers = wire.call(request, OffsetFetchResponse, version).groups
    assert [one.group_id for one in answers] == [group, other, nobody]
    assert [one.error_code for one in answers] == [NO_ERROR] * 3
    for answer, offset in zip(answers, (5, 6), strict=False):
        (found,) = answer.topics
        assert (found.name, found.topic_id) == (("", id_) if version >= BY_ID else (topic, id_))
        assert found.partitions[0].committed_offset == offset
    assert answers[2].topics == []


def test_an_unknown_topic_id_cannot_be_fetched(wire: Wire, group: str) -> None:
    asked = OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])])
    (answer,) = wire.call(request, OffsetFetchResponse, BY_ID).groups
    (partition,) = answer.topics[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (partition.committed_offset, partition.committed_leader_epoch) == (-1, -1)


# OffsetDelete


def delete(
    wire: Wire, group: str, topic: str, *partitions: int
) -> tuple[ErrorCode, dict[int, ErrorCode]]:
    asked = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    request = OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=asked)]
    )
    answer = wire.call(request, OffsetDeleteResponse)
    codes = {
        one.partition_index: ErrorCode(one.error_code)
        for found in answer.topics
        for one in found.partitions
    }
    return ErrorCode(answer.error_code), codes


def test_offsets_are_deleted(wire: Wire, group: str, topic: str) -> None:
    commit(wire, group, topic, {0: 5, 1: 6})
    assert delete(wire, group, topic, 0, 2) == (NO_ERROR, {0: NO_ERROR, 2: UNKNOWN})
    assert fetch(wire, group, topic, 0, 1) == {0: -1, 1: 6}


def test_offsets_of_subscribed_topics_are_not_deleted(wire: Wire, group: str, topic: str) -> None:
    member, generation = join(wire, group, topic)
    sync(wire, group, member, generation)
    commit(wire, group, topic, {0: 5}, member_id=member, generation=generation)
    codes = delete(wire, group, topic, 0)
    assert codes == (NO_ERROR, {0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    assert fetch(wire, group, topic, 0) == {0: 5}


def test_deleting_offsets_of_a_missing_group_is_an_error(
    wire: Wire, group: str, topic: str
) -> None:
    assert delete(wire, group, topic, 0)[0] is ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(wire, "", topic, 0)[0] is ErrorCode.INVALID_GROUP_ID


# TxnOffsetCommit


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_cannot_commit_offsets_of_an_unknown_topic(
    wire: Wire, group: str, version: int
) -> None:
    asked = TxnOffsetCommitRequestTopic(
        name="there-is-none", partitions=[TxnOffsetCommitRequestPartition(partition_index=0)]
    )
    request = TxnOffsetCommitRequest(
        transactional_id="writer", group_id=group, producer_id=1, topics=[asked]
    )
    (answer,) = wire.call(request, TxnOffsetCommitResponse, version).topics
    assert [one.error_code for one in answer.partitions] == [UNKNOWN]


def begin(wire: Wire, transactional_id: str) -> InitProducerIdResponse:
    """A new transactional producer."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000
    )

    def found() -> bool:
        coordinator = FindCoordinatorRequest(key=transactional_id, key_type=1)
        return wire.call(coordinator, FindCoordinatorResponse, 3).error_code == NO_ERROR

    def ready() -> InitProducerIdResponse | None:
        answer = wire.call(request, InitProducerIdResponse, 4)
        return answer if answer.error_code == NO_ERROR else None

    wait_for(found, "the transaction has a coordinator", deadline_s=60)
    return wait_for(ready, "a producer id", deadline_s=60)


def fetch_stable(wire: Wire, group: str, topic: str) -> tuple[ErrorCode, int]:
    """The error and the offset of partition 0."""
    asked = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])], require_stable=True
    )
    (answer,) = wire.call(request, OffsetFetchResponse, BY_NAME).groups
    (partition,) = answer.topics[0].partitions
    return ErrorCode(partition.error_code), partition.committed_offset


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "aborted"])
@pytest.mark.parametrize("version", range(6))
def test_transactional_offsets_wait_for_the_end_of_the_transaction(
    wire: Wire, group: str, topic: str, version: int, committed: bool
) -> None:
    commit(wire, group, topic, {0: 1})
    name = f"writer-{group}"
    producer = begin(wire, name)
    who = {
        "transactional_id": name,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }
    if version < FIRST_THAT_ADDS_THE_GROUP:
        added = wire.call(AddOffsetsToTxnRequest(group_id=group, **who), AddOffsetsToTxnResponse, 3)
        assert added.error_code == NO_ERROR
    asked = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    request = TxnOffsetCommitRequest(
        group_id=group,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[asked])],
        **who,
    )
    (answer,) = wire.call(request, TxnOffsetCommitResponse, version).topics
    assert answer.partitions[0].error_code == NO_ERROR

    assert fetch(wire, group, topic, 0) == {0: 1}
    assert fetch_stable(wire, group, topic) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    end = EndTxnRequest(committed=committed, **who)
    ended = wire.call(end, EndTxnResponse, 5 if version >= FIRST_THAT_ADDS_THE_GROUP else 4)
    assert ended.error_code == NO_ERROR
    # The answer does not wait for the marker.
    expected = (NO_ERROR, 7 if committed else 1)
    wait_for(lambda: fetch_stable(wire, group, topic) == expected, "the marker is written")


# Topics and restarts


def test_offsets_are_deleted_with_their_topic(
    wire: Wire, group: str, topic: str, make_topic: MakeTopic
) -> None:
    other = make_topic()
    commit(wire, group, topic, {0: 5})
    commit(wire, group, other, {0: 6})
    gone = DeleteTopicState(name=topic)
    request = DeleteTopicsRequest(topics=[gone], timeout_ms=10_000)
    assert wire.call(request, DeleteTopicsResponse).responses[0].error_code == NO_ERROR
    wait_for(lambda: fetch(wire, group, topic, 0) == {0: -1}, "the offsets have gone")
    assert fetch(wire, group, other, 0) == {0: 6}


def test_offsets_expire_and_the_last_removes_their_group() -> None:
    with (
        Broker(settings={"offsets.retention.check.interval.ms": "20"}) as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        wait_for_coordinator(wire, "readers")
        create_topic(wire, "t")
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        request = OffsetCommitRequest(
            group_id="readers",
            retention_time_ms=1,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        wire.call(request, OffsetCommitResponse, 2)
        wait_for(lambda: fetch(wire, "readers", "t", 0) == {0: -1}, "the offset has expired")
        wait_for(
            lambda: not wire.call(ListGroupsRequest(), ListGroupsResponse).groups,
            "the group has gone",
        )


def test_offsets_survive_a_broker_restart(spawn: Spawn) -> None:
    broker = spawn(ephemeral=False)
    with Wire(broker.bootstrap_servers) as wire:
        wait_for_coordinator(wire, "readers")
        create_topic(wire, "t")
        for offset in range(20):
            assert commit(wire, "readers", "t", {0: offset}) == {0: NO_ERROR}
    broker.kill()
    broker.start()
    with Wire(broker.bootstrap_servers) as wire:
        wait_for_coordinator(wire, "readers")
        assert fetch(wire, "readers", "t", 0) == {0: 19}
