"""Full disks in a cluster: partitions with space on other brokers stay writable."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.broker.replication import full_disk_detector
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.protocol.messages.create_topics import (
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
from headrace.storage.log.log import Log
from support.brokers.members import Members, run, until
from support.storage.full_files import FullFiles

NOW_MS = 1_700_000_000_000
TWO_IN_SYNC = {"min.insync.replicas": "2", "replica.lag.time.max.ms": "600000"}
PAUSE_S = 0.02
HANDED_OVER = {
    "leader": "this broker hands over the leadership of partitions",
    "follower": ("asked the controller to leave the ISR of partitions on a full or failed disk"),
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_disk_detector, "PATIENCE_S", 0.2)


async def create(members: Members, *, replicas: int = 3, **configs: str) -> None:
    settings = [
        CreatableTopicConfig(name=name.replace("_", "."), value=value)
        for name, value in configs.items()
    ]
    new = CreatableTopic(
        name="orders", num_partitions=1, replication_factor=replicas, configs=settings
    )
    answer = await members.ask(1, CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message


async def produce(members: Members, value: bytes) -> PartitionProduceResponse:
    """Sends one batch with acks=all to the current leader."""
    leader = members.partition(members.controller).leader
    batch = build_batch([Record(0, NOW_MS, None, value, ())])
    data = TopicProduceData(
        name="orders", partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    request = ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[data])
    answer = await members.ask(leader, request, ProduceResponse, version=12)
    return answer.responses[0].partition_responses[0]


async def produce_at_last(members: Members, value: bytes) -> int:
    """Retries after retriable errors, as producers do; returns the record's offset."""
    async with asyncio.timeout(20):
        while True:
            answer = await produce(members, value)
            code = ErrorCode(answer.error_code)
            if code is ErrorCode.NONE:
                return answer.base_offset
            assert code.retriable, code
            await asyncio.sleep(PAUSE_S)


def log_of(members: Members, id_: int) -> Log:
    replica = members.brokers[id_].partitions.replica("orders", 0)
    assert replica is not None
    return replica.log


def alike(members: Members) -> bool:
    held = {log_of(members, id_).read(0, max_bytes=1 << 20).data for id_ in members.brokers}
    return len(held) == 1


def everybody_in_sync(members: Members) -> bool:
    return all(set(members.partition(id_).isr) == {1, 2, 3} for id_ in members.brokers)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_partition_stays_writable_when_one_replicas_disk_is_full(
    role: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Acknowledged records stay, and the replica returns when there is space."""

    async def test() -> None:
        disks = {id_: FullFiles() for id_ in (1, 2, 3)}
        async with Members(tmp_path, count=0, settings=TWO_IN_SYNC) as members:
            await asyncio.gather(*(members.start(id_, files=disks[id_]) for id_ in disks))
            await create(members)
            assert await produce_at_last(members, b"before") == 0
            first = members.partition(members.controller).leader
            full = first if role == "leader" else next(id_ for id_ in disks if id_ != first)
            disks[full].is_full = True
            for number in range(1, 4):
                assert await produce_at_last(members, b"%d" % number) == number
            partition = members.partition(members.controller)
            assert partition.leader != full and full not in partition.isr
            assert role == "leader" or partition.leader == first
            line = next(each for each in caplog.records if each.getMessage() == HANDED_OVER[role])
            assert (line.__dict__["broker"], line.__dict__["examples"]) == (full, "orders-0")
            disks[full].is_full = False
            await until(lambda: everybody_in_sync(members), "everybody is in sync")
            await until(lambda: alike(members), "the replicas are alike")
            assert log_of(members, full).log_end_offset == 4

    run(test())


def test_replicas_on_full_disks_stay_in_the_isr_when_too_few_others_are_in_sync(
    tmp_path: Path,
) -> None:
    """All disks are full: the last in-sync replicas keep their records and all recover."""

    async def test() -> None:
        disks = {id_: FullFiles() for id_ in (1, 2, 3)}
        async with Members(tmp_path, count=0, settings=TWO_IN_SYNC) as members:
            await asyncio.gather(*(members.start(id_, files=disks[id_]) for id_ in disks))
            await create(members)
            assert await produce_at_last(members, b"before") == 0
            for disk in disks.values():
                disk.is_full = True
            waiting = asyncio.create_task(produce_at_last(members, b"after"))
            await until(
                lambda: len(members.partition(members.controller).isr) == 2, "one has given up"
            )
            for _ in range(20):
                await asyncio.sleep(PAUSE_S)
                assert len(members.partition(members.controller).isr) >= 2
                assert members.partition(members.controller).leader > 0
            for disk in disks.values():
                disk.is_full = False
            assert await waiting == 1
            await until(lambda: everybody_in_sync(members), "everybody is in sync")
            await until(lambda: alike(members), "the replicas are alike")

    run(test())


def test_a_move_to_a_full_disk_blocks_nothing_and_completes_when_space_is_freed(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        full = FullFiles()
        async with Members(tmp_path, count=2, settings=TWO_IN_SYNC) as members:
            await create(members, replicas=2)
            await members.start(3, files=full)
            assert await produce_at_last(members, b"before") == 0
            full.is_full = True
            moved = ReassignablePartition(partition_index=0, replicas=[1, 3])
            topic = ReassignableTopic(name="orders", partitions=[moved])
            answer = await members.ask(
                members.controller,
                AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=[topic]),
                AlterPartitionReassignmentsResponse,
            )
            assert answer.responses[0].partitions[0].error_code == 0
            for number in range(1, 4):
                assert await produce_at_last(members, b"%d" % number) == number
            assert set(members.partition(1).isr) == {1, 2}
            full.is_full = False
            await until(
                lambda: (
                    set(members.partition(1).replicas) == set(members.partition(1).isr) == {1, 3}
                ),
                "the replica is moved",
            )
            await until(lambda: log_of(members, 3).log_end_offset == 4, "it has all")

    run(test())


def test_followers_delete_segments_deleted_by_their_leader(tmp_path: Path) -> None:
    """The leader's clock and sizes decide, not the followers'; files are deleted too."""

    async def test() -> None:
        settings = {"log.retention.check.interval.ms": "100"}
        async with Members(tmp_path, settings=settings) as members:
            await create(
                members, segment_bytes="1048576", retention_bytes="0", file_delete_delay_ms="0"
            )
            for number in range(12):
                await produce_at_last(members, b"%d" % number * 200_000)
            await until(
                lambda: all(log_of(members, id_).log_start_offset == 12 for id_ in (1, 2, 3)),
                "all is deleted",
            )
            await until(
                lambda: all(used(tmp_path / str(id_)) == 0 for id_ in (1, 2, 3)), "no files"
            )
            assert await produce_at_last(members, b"next") == 12

    run(test())


def used(directory: Path) -> int:
    """Bytes in segments, including segments scheduled for deletion."""
    total = 0
    for file in directory.glob("orders-0/*.log*"):
        with suppress(FileNotFoundError):  # just now
            total += file.stat().st_size
    return total
