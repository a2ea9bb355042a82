"""Commits that arrive in one loop iteration share a batch; each gets the same response as it
would alone."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.coordinators.commit_batcher import MAX_COMMITS_A_BATCH
from headrace.broker.coordinators.commit_fast_path import CommitFastPath
from headrace.broker.network.connection import Connection
from headrace.broker.node import Broker
from headrace.cluster.settings import BrokerSettings
from headrace.controller.topic_changes import NewTopic
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
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
from headrace.protocol.struct import Struct
from headrace.records.batch_header import headers
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import DiskFull
from headrace.storage.log.log import Log
from support.wire.connection import address_of, request_frame

TOPIC = "read"
OFFSETS = "__consumer_offsets"
CONNECTIONS = 12
VERSION = 8
DEADLINE_S = 60.0


class Member:
    """A client on the broker's own event loop: its bytes arrive in the next iteration."""

    def __init__(self, bootstrap: str, partition: int) -> None:
        self.partition = partition
        self.socket = socket.create_connection(address_of(bootstrap))
        self.socket.setblocking(False)
        self._received = b""
        self._sent = 0

    def send(self, *requests: tuple[Struct, int]) -> None:
        frames = []
        for request, version in requests:
            self._sent += 1
            frames.append(request_frame(request, version, correlation_id=self._sent))
        self.socket.send(b"".join(frames))

    def commit(self, offset: int, group: str = "g", topic: str = TOPIC) -> None:
        self.send((commit_of(self.partition, offset, group, topic), VERSION))

    async def frame(self) -> bytes:
        while True:
            size = int.from_bytes(self._received[:4], "big")
            if len(self._received) >= 4 + size > 4:
                frame = self._received[4 : 4 + size]
                self._received = self._received[4 + size :]
                return frame
            try:
                received = self.socket.recv(1 << 16)
            except BlockingIOError:
                await asyncio.sleep(0)
                continue
            assert received, "the broker closed the connection"
            self._received += received

    async def code(self) -> int:
        """The error code of the next answer, which is a commit's."""
        answer = OffsetCommitResponse.decode((await self.frame())[5:], VERSION)
        return answer.topics[0].partitions[0].error_code


def commit_of(
    partition: int, offset: int, group: str = "g", topic: str = TOPIC
) -> OffsetCommitRequest:
    asked = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[asked])],
    )


class Node:
    """A broker with one offsets partition, and clients that have each committed twice."""

    def __init__(self, broker: Broker, members: Sequence[Member]) -> None:
        self.broker = broker
        self.members = members

    @property
    def leader(self) -> SoleLeader:
        leader = self.broker.partitions.find(OFFSETS, 0)
        assert isinstance(leader, SoleLeader)
        return leader

    def batches(self, first_offset: int) -> list[int]:
        data = self.leader.log.read(first_offset, max_bytes=1 << 24).data
        return [header.record_count for _, header in headers(data)]

    def committed(self, group: str = "g") -> dict[int, int]:
        topics = self.broker.groups.read(
            group, lambda shard, _: shard.offsets.state.committed.topics(group)
        )
        return {index: found.value.offset for index, found in topics.get(TOPIC, {}).items()}

    async def codes(self) -> list[int]:
        return [await member.code() for member in self.members]


@asynccontextmanager
async def started(
    data: Path, settings: dict[str, str] | None = None, connections: int = CONNECTIONS
) -> AsyncIterator[Node]:
    named = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(data),
        "offsets.topic.num.partitions": "1",
    }
    broker = Broker(BrokerSettings.parse(named | (settings or {})))
    await broker.start()
    try:
        topic = NewTopic(TOPIC, connections)
        await broker.metadata.decide(lambda controller: controller.create_topics([topic]))
        await broker.groups.ensure_topic()
        with ExitStack() as stack:
            members = [Member(broker.bootstrap_servers, index) for index in range(connections)]
            for member in members:
                stack.callback(member.socket.close)
            node = Node(broker, members)
            for offset in range(2):
                for member in members:
                    member.commit(offset)
                assert await node.codes() == [0] * connections
            yield node
    finally:
        await broker.stop(timeout_s=30)


async def until(condition: Callable[[], bool]) -> int:
    """Returns after how many loop iterations it is true; `run` has the deadline."""
    turns = 0
    while not condition():
        turns += 1
        await asyncio.sleep(0)
    return turns


def run(scenario: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))


def test_commits_of_one_loop_iteration_are_one_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            before = node.leader.log.log_end_offset
            for member in node.members:
                member.commit(100 + member.partition)
            assert await node.codes() == [0] * CONNECTIONS
            assert node.committed() == {index: 100 + index for index in range(CONNECTIONS)}
            assert node.batches(before) == [CONNECTIONS]

    run(scenario)


def test_responses_are_sent_after_all_appends_of_one_loop_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of several shards: waking a client for each response costs as much as an append."""
    done: list[str] = []
    append, answer = Log.append_plain_records, Connection.complete_fast_path

    def appended(log: Log, *args: Any) -> tuple[int, bool]:
        done.append("append")
        return append(log, *args)

    def answered(connection: Connection, part: bytes) -> None:
        done.append("answer")
        answer(connection, part)

    async def scenario() -> None:
        async with started(tmp_path, {"offsets.topic.num.partitions": "5"}) as node:
            groups = [f"g{index}" for index in range(CONNECTIONS)]
            for offset in range(3):
                if offset == 2:
                    monkeypatch.setattr(Log, "append_plain_records", appended)
                    monkeypatch.setattr(Connection, "complete_fast_path", answered)
                for member, group in zip(node.members, groups, strict=True):
                    member.commit(offset, group)
                assert await node.codes() == [0] * CONNECTIONS
            monkeypatch.undo()
            assert [node.committed(group) for group in groups] == [
                {index: 2} for index in range(CONNECTIONS)
            ]
            shards = len({node.broker.groups.partition_of(group) for group in groups})
            assert shards > 1
            assert done == ["append"] * shards + ["answer"] * CONNECTIONS

    run(scenario)


def test_a_rejected_commit_does_not_affect_the_others(tmp_path: Path) -> None:
    """The group of one of the clients is deleted before its next commit."""

    async def scenario() -> None:
        async with started(tmp_path) as node:
            alone, *others = node.members
            for offset in range(2):
                alone.commit(offset, "h")
                assert await alone.code() == 0
            other = others[-1]
            other.send((DeleteGroupsRequest(groups_names=["h"]), 2))
            deleted = DeleteGroupsResponse.decode((await other.frame())[5:], 2)
            assert deleted.results[0].error_code == 0
            before = node.leader.log.log_end_offset
            alone.commit(7, "h")
            for member in others:
                member.commit(7)
            assert await node.codes() == [0] * CONNECTIONS
            assert node.batches(before) == [CONNECTIONS - 1, 1]
            assert node.committed("h") == {0: 7}
            assert node.committed() == {0: 1} | dict.fromkeys(range(1, CONNECTIONS), 7)

    run(scenario)


def test_commits_that_cannot_be_stored_are_all_rejected(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            node.leader.log.local.log_failure = DiskFull("no room")
            for member in node.members:
                member.commit(9)
            assert set(await node.codes()) == {ErrorCode.NOT_COORDINATOR}
            node.leader.log.local.log_failure = None
            assert node.committed() == dict.fromkeys(range(CONNECTIONS), 1)
            for member in node.members:
                member.commit(10)
            assert await node.codes() == [0] * CONNECTIONS
            assert node.committed() == dict.fromkeys(range(CONNECTIONS), 10)

    run(scenario)


def test_nothing_overtakes_a_commit_on_its_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            (member, *_) = node.members
            topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
            group = OffsetFetchRequestGroup(group_id="g", topics=topics)
            member.send(
                (ApiVersionsRequest(), 0),
                (commit_of(0, 50), VERSION),
                (OffsetFetchRequest(groups=[group]), 8),
                (commit_of(0, 51), VERSION),
                (commit_of(0, 52), VERSION),
            )
            assert len(await member.frame()) > 100  # the versions
            assert await member.code() == 0
            fetched = OffsetFetchResponse.decode((await member.frame())[5:], 8)
            assert fetched.groups[0].topics[0].partitions[0].committed_offset == 50
            assert [await member.code(), await member.code()] == [0, 0]
            assert node.committed()[0] == 52

    run(scenario)


def test_responses_of_a_batch_wait_for_its_required_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with started(tmp_path, {"log.flush.interval.messages": "1"}) as node:
            before = node.leader.log.log_end_offset
            seen: list[int] = []
            complete_fast_path = Connection.complete_fast_path

            def watched(connection: Connection, response: bytes) -> None:
                seen.append(node.leader.high_watermark)
                complete_fast_path(connection, response)

            monkeypatch.setattr(Connection, "complete_fast_path", watched)
            for member in node.members:
                member.commit(5)
            assert await node.codes() == [0] * CONNECTIONS
            assert seen == [before + CONNECTIONS] * CONNECTIONS
            assert node.batches(before) == [CONNECTIONS]

    run(scenario)


def test_a_client_that_disconnects_during_its_commit_does_not_block_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            alone, *others = node.members
            for member in node.members:
                member.commit(3)
            alone.socket.close()
            assert [await member.code() for member in others] == [0] * len(others)

    run(scenario)


def test_a_stopping_broker_answers_its_pending_commits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as node:
            batcher = node.broker.coordinators.commits
            for member in node.members:
                member.commit(3)
            await until(lambda: bool(batcher._batch))
            draining = asyncio.ensure_future(node.broker.server.drain(timeout_s=30))
            assert await node.codes() == [0] * CONNECTIONS
            await draining

    run(scenario)


def test_a_batch_has_a_maximum_number_of_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits of one client are added by hand, as if they came from many."""
    responded: list[CommitFastPath] = []

    async def scenario() -> None:
        async with started(tmp_path, connections=1) as node:
            connection = next(iter(node.broker.server._connections))
            before = node.leader.log.log_end_offset
            monkeypatch.setattr(CommitFastPath, "respond", lambda commit: responded.append(commit))
            commit = connection.fast_path
            assert isinstance(commit, CommitFastPath)
            for _ in range(MAX_COMMITS_A_BATCH + 1):
                node.broker.coordinators.commits.add(commit)
            await until(lambda: len(responded) == MAX_COMMITS_A_BATCH + 1)
            assert node.batches(before) == [MAX_COMMITS_A_BATCH, 1]

    run(scenario)


def test_commits_stored_together_survive_a_restart(tmp_path: Path) -> None:

    async def scenario() -> None:
        async with started(tmp_path) as node:
            for member in node.members:
                member.commit(77)
            assert await node.codes() == [0] * CONNECTIONS
        broker = Broker(
            BrokerSettings.parse(
                {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
            )
        )
        await broker.start()
        try:
            broker.coordinators.load()
            again = Node(broker, [])
            await until(lambda: bool(broker.groups._runners))
            assert again.committed() == dict.fromkeys(range(CONNECTIONS), 77)
        finally:
            await broker.stop(timeout_s=30)

    run(scenario)
