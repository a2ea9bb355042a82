"""A connection that commits the same partition over and over takes the fast path, which changes
neither the responses nor what is stored."""

import struct
from collections.abc import Iterator
from random import Random

import pytest

import headrace.testing
from headrace.broker.coordinators.commit_fast_path import CommitFastPath
from headrace.broker.network.connection import Connection, Parts, Pipelined, Serial
from headrace.broker.network.dispatch import Dispatcher
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
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
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from support.waiting import wait_for
from support.wire.connection import Wire
from support.wire.topics import create_topic

TOPIC = "read"
FIRST_WITH_IDS = 10
OFFSET_COMMIT = struct.pack(">h", ApiKey.OFFSET_COMMIT)


@pytest.fixture
def wire(taken: list[bool]) -> Iterator[Wire]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
    with (
        headrace.testing.Broker(settings=settings) as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        create_topic(wire, TOPIC, partitions=4)
        wire.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        yield wire


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each commit took the fast path."""
    taken: list[bool] = []
    dispatch, try_serve = Dispatcher.dispatch, CommitFastPath.try_serve

    def counted(
        dispatcher: Dispatcher, connection: Connection, frame: memoryview
    ) -> Parts | Pipelined | Serial | None:
        if frame[:2] == OFFSET_COMMIT:
            taken.append(False)
        return dispatch(dispatcher, connection, frame)

    def counted_fast(commit: CommitFastPath, buffer: bytearray | memoryview, at: int) -> bool:
        served = try_serve(commit, buffer, at)
        if served:
            taken.append(True)
        return served

    monkeypatch.setattr(Dispatcher, "dispatch", counted)
    monkeypatch.setattr(CommitFastPath, "try_serve", counted_fast)
    return taken


def topic_id(wire: Wire) -> bytes:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    return wire.call(asked, MetadataResponse).topics[0].topic_id


def commit(
    wire: Wire,
    offset: int,
    version: int = 8,
    *,
    group: str = "g",
    partition: int = 0,
    metadata: str = "",
    leader_epoch: int = -1,
) -> int:
    asked = OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset,
        committed_metadata=metadata,
        committed_leader_epoch=leader_epoch if version >= 6 else -1,
    )
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[asked])
    if version >= FIRST_WITH_IDS:
        topic = OffsetCommitRequestTopic(topic_id=topic_id(wire), partitions=[asked])
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=[topic]
    )
    answer = wire.call(request, OffsetCommitResponse, version)
    (answered,) = answer.topics
    assert answered.name == topic.name
    assert answered.topic_id == topic.topic_id
    assert answered.partitions[0].partition_index == partition
    return answered.partitions[0].error_code


def committed(wire: Wire, group: str = "g", partition: int = 0) -> tuple[int, str, int]:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[partition])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    (answer,) = wait_for(
        lambda: [
            answer
            for answer in wire.call(request, OffsetFetchResponse, 8).groups
            if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ],
        "the group is loaded",
    )
    found = answer.topics[0].partitions[0]
    return found.committed_offset, found.metadata or "", found.committed_leader_epoch


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_stores_each_offset(wire: Wire, taken: list[bool], version: int) -> None:
    for offset in (5, 6, 0, 2**40, 7):
        assert commit(wire, offset, version, metadata="kept") == ErrorCode.NONE
        assert committed(wire)[:2] == (offset, "kept")
    assert taken == [False, True, True, True, True]


def test_a_request_with_other_differences_skips_the_fast_path(
    wire: Wire, taken: list[bool]
) -> None:
    commit(wire, 1)
    commit(wire, 2)
    commit(wire, 3, metadata="new")
    assert committed(wire) == (3, "new", -1)
    commit(wire, 4, metadata="new")
    commit(wire, 5, metadata="new", leader_epoch=0)
    assert committed(wire) == (5, "new", 0)
    assert taken == [False, True, False, True, False]


def test_a_connection_with_varying_commits_skips_the_fast_path(
    wire: Wire, taken: list[bool]
) -> None:
    for offset in range(3):
        for partition in range(2):
            assert commit(wire, offset, partition=partition) == ErrorCode.NONE
            assert committed(wire, partition=partition)[0] == offset
    assert not any(taken)


def test_a_group_that_gains_members_rejects_the_next_commit(wire: Wire, taken: list[bool]) -> None:
    assert [commit(wire, 1), commit(wire, 2)] == [0, 0]
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    wire.call(join, JoinGroupResponse, 2)  # answered at once in this version
    assert commit(wire, 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(wire)[0] == 2
    assert taken == [False, True, True, False]  # the fast path fell back to the handler


def test_commits_for_a_deleted_topic_are_rejected(wire: Wire, taken: list[bool]) -> None:
    assert [commit(wire, 1), commit(wire, 2)] == [0, 0]
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=10_000)
    wire.call(deletion, DeleteTopicsResponse)
    assert commit(wire, 3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create_topic(wire, TOPIC)
    assert [commit(wire, 4), commit(wire, 5)] == [0, 0]
    assert committed(wire)[0] == 5


def test_responses_wait_for_a_required_flush() -> None:
    settings = {"log.flush.interval.messages": "1"}
    with headrace.testing.Broker(settings=settings) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            create_topic(wire, TOPIC)
            wire.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
            for offset in range(4):
                assert commit(wire, offset) == ErrorCode.NONE
        broker.kill()
        broker.start()
        with Wire(broker.bootstrap_servers) as wire:
            assert committed(wire)[0] == 3


def test_any_sequence_of_commits_is_stored_as_without_the_fast_path(wire: Wire) -> None:
    random = Random(7)
    stored: dict[tuple[str, int], int] = {}
    for _ in range(300):
        group = random.choice(["g", "g", "g", "h"])
        partition = random.choice([0, 0, 0, 1])
        offset = random.randrange(2**62)
        assert commit(wire, offset, group=group, partition=partition) == ErrorCode.NONE
        stored[group, partition] = offset
    for (group, partition), offset in stored.items():
        assert committed(wire, group, partition)[0] == offset
