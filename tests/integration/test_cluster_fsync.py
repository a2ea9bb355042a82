"""A disk of one broker that fails to flush, once or for ever: nothing is acknowledged on its word.

After a failed fsync the kernel may have dropped the bytes and forgotten about it, so that the next
one succeeds. One failure is as good as many: the directory is not used again.
"""

import errno
from pathlib import Path

import pytest
from tests.support.batches import values_of
from tests.support.members import Members, run, until

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.record import Record, build_batch
from headrace.storage.filesystem import RealFileSystem

NOW_MS = 1_700_000_000_000
FAILING = 3
FOR_EVER = 1 << 30
MAX_BYTES = 1 << 20
PATIENT = {"replica.lag.time.max.ms": "600000"}


class FailingFiles(RealFileSystem):
    """Flushes fail so often, from when a test says so."""

    def __init__(self) -> None:
        self.failures_left = 0
        self.failed = 0

    def fsync(self, fd: int) -> None:
        if self.failures_left:
            self.failures_left -= 1
            self.failed += 1
            raise OSError(errno.EIO, "Input/output error")
        super().fsync(fd)


async def create(members: Members, leader: int) -> None:
    replicas = [leader, *(id_ for id_ in members.brokers if id_ != leader)]
    new = CreatableTopic(
        name="orders",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
        configs=[
            CreatableTopicConfig(name="flush.messages", value="1"),
            CreatableTopicConfig(name="min.insync.replicas", value="2"),
        ],
    )
    answer = await members.ask(1, CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message
    await until(members.agree, "everybody knows")


async def produce(members: Members, at: int, value: bytes) -> PartitionProduceResponse:
    batch = build_batch([Record(0, NOW_MS, None, value, ())])
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(records=batch)])
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
    answer = await members.ask(at, request, ProduceResponse, version=12)
    return answer.responses[0].partition_responses[0]


def values(members: Members, id_: int) -> list[bytes | None]:
    replica = members.brokers[id_].partitions.replica("orders", 0)
    assert replica is not None
    return values_of(replica.log.read(0, max_bytes=MAX_BYTES).data)


@pytest.mark.parametrize("failures", [1, FOR_EVER], ids=["once", "for ever"])
def test_a_leader_whose_flush_failed_acknowledges_nothing_more_and_another_leads(
    tmp_path: Path, failures: int
) -> None:
    files = FailingFiles()

    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            await members.start(FAILING, {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}, files)
            await create(members, FAILING)
            assert (await produce(members, FAILING, b"before")).error_code == ErrorCode.NONE
            files.failures_left = failures
            assert (await produce(members, FAILING, b"failed")).error_code != ErrorCode.NONE
            assert (await produce(members, FAILING, b"again")).error_code != ErrorCode.NONE
            assert files.failed
            await until(lambda: members.partition(1).leader != FAILING, "another leads")
            await until(members.agree, "everybody knows")
            leader = members.partition(1).leader
            assert (await produce(members, leader, b"after")).error_code == ErrorCode.NONE
            held = values(members, leader)
            assert [each for each in held if each != b"failed"] == [b"before", b"after"]
            assert FAILING not in members.partition(leader).isr

    run(test())


@pytest.mark.parametrize("failures", [1, FOR_EVER], ids=["once", "for ever"])
def test_a_follower_whose_flush_failed_does_not_count_and_nobody_waits_for_it(
    tmp_path: Path, failures: int
) -> None:
    """Though replicas may lag for as long as they like here."""
    files = FailingFiles()

    async def test() -> None:
        async with Members(tmp_path, count=2, settings=PATIENT) as members:
            dirs = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
            await members.start(FAILING, dirs, files)
            await create(members, 1)
            assert (await produce(members, 1, b"before")).error_code == ErrorCode.NONE
            files.failures_left = failures
            assert (await produce(members, 1, b"meanwhile")).error_code == ErrorCode.NONE
            assert FAILING not in members.partition(1).isr
            assert (await produce(members, 1, b"after")).error_code == ErrorCode.NONE
            for id_ in (1, 2):
                assert values(members, id_) == [b"before", b"meanwhile", b"after"]

    run(test())
