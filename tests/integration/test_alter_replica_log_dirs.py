"""Moves of replicas between log directories: interruptions, cancellation, completion."""

import asyncio
import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from headrace.broker.node import Broker
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.record import Record, build_batch
from headrace.storage.files.filesystem import Buffer, RealFileSystem
from support.brokers.members import Members, run, until
from support.brokers.processes import BrokerProcess
from support.waiting import wait_for
from support.wire.batches import batch, fetch, fetch_request, values_of
from support.wire.batches import produce as send
from support.wire.connection import Wire
from support.wire.topics import create_topic

NOW_MS = 1_700_000_000_000
VALUE_BYTES = 600_000  # more than half of one copied chunk
BATCHES = 4
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
HELD = {RATE: "1"}  # one chunk, and nothing more during the test
MOVING = 3  # the broker with two directories


def request_move(path: str, indexes: list[int]) -> AlterReplicaLogDirsRequest:
    topic = AlterReplicaLogDirTopic(name="orders", partitions=indexes)
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])


# --- one broker, in a process -------------------------------------------------------------------


@pytest.mark.parametrize("cleanly", [True, False], ids=["stop", "kill -9"])
def test_a_move_continues_after_a_restart(tmp_path: Path, cleanly: bool) -> None:
    """The same copy is listed until it replaces the original."""
    first, second = tmp_path / "a", tmp_path / "b"
    both = Path(f"{first},{second}")  # --data is log.dirs, which may name several
    with BrokerProcess(tmp_path, settings=HELD, data=both) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            create_topic(wire, "orders")
            for number in range(BATCHES):
                assert (
                    send(wire, "orders", batch((b"%d" % number).ljust(VALUE_BYTES))).error_code == 0
                )
            answer = wire.call(request_move(str(second), [0]), AlterReplicaLogDirsResponse)
            assert answer.results[0].partitions[0].error_code == ErrorCode.NONE
            found = wait_for(lambda: copy_in(wire, second, past=0), "a piece is copied")
            assert found.offset_lag == BATCHES - 1
        (future,) = second.glob("orders-0.*-future")
        inode = (future / f"{0:020}.log").stat().st_ino
        (broker.stop if cleanly else broker.kill)()
        broker.start()
        with Wire(broker.bootstrap_servers) as wire:
            found = wait_for(
                lambda: copy_in(wire, second, past=2 * VALUE_BYTES), "another piece is copied"
            )
            assert found.offset_lag == BATCHES - 2
            assert [future] == [*second.glob("orders-0.*-future")]
        (broker.stop if cleanly else broker.kill)()
        broker._settings.pop(RATE)
        broker.start()
        wait_for(lambda: not any(first.glob("orders-0")), "the move is over")
        assert (second / "orders-0" / f"{0:020}.log").stat().st_ino == inode
        with Wire(broker.bootstrap_servers) as wire:
            assert copy_in(wire, second, past=-1) is None
            for number in range(BATCHES):
                data = fetch(wire, fetch_request("orders", number)).records
                assert values_of(data)[0] == (b"%d" % number).ljust(VALUE_BYTES)


def copy_in(wire: Wire, path: Path, *, past: int) -> DescribeLogDirsPartition | None:
    """The copy of the partition, if it is larger than the given size."""
    answer = wire.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    for directory in answer.results:
        for topic in directory.topics if directory.log_dir == str(path) else ():
            for partition in topic.partitions:
                if partition.is_future_key and partition.partition_size > past:
                    return partition
    return None


# --- a broker of a cluster ----------------------------------------------------------------------


def directories(tmp_path: Path, **settings: str) -> dict[str, str]:
    return {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"} | HELD | settings


async def begun(
    members: Members,
    settings: dict[str, str],
    *,
    partitions: int = 1,
    leader: int = 1,
    configs: Mapping[str, str] | None = None,
) -> Broker:
    """A broker that has copied the first chunk of each replica to its second directory."""
    broker = await members.start(MOVING, settings)
    replicas = [MOVING, 1] if leader == MOVING else [1, MOVING]
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
        for index in range(partitions)
    ]
    new = CreatableTopic(
        name="orders",
        num_partitions=-1,
        replication_factor=-1,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
    )
    answer = await members.ask(1, CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message
    await until(lambda: members.agree() and len(broker.logs) == partitions, "it is known")
    for index in range(partitions):
        for number in range(BATCHES):
            await produce(members, leader, b"%d" % number, index)
    first, second = broker.logs.directories
    for index in range(partitions):
        here = broker.logs.get("orders", index)
        assert here is not None
        target = second if here.directory is first.state else first
        await move(members, target.path, index)
    return broker


def kill(members: Members) -> None:
    members.kill(MOVING)
    members.sessions[MOVING].expire()


async def move(members: Members, path: str, index: int = 0) -> None:
    answer = await members.ask(MOVING, request_move(path, [index]), AlterReplicaLogDirsResponse)
    assert answer.results[0].partitions[0].error_code == ErrorCode.NONE


async def produce(members: Members, at: int, value: bytes, index: int = 0) -> None:
    records = build_batch([Record(0, NOW_MS, b"key", value.ljust(VALUE_BYTES), ())])
    data = TopicProduceData(
        name="orders", partition_data=[PartitionProduceData(index=index, records=records)]
    )
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
    answer = await members.ask(at, request, ProduceResponse, version=12)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def copied(broker: Broker, index: int = 0) -> int:
    """The end offset of the copy, -1 without a copy."""
    copy = broker.logs.futures.get("orders", index)
    return -1 if copy is None else copy.log_end_offset


def alike(members: Members, index: int = 0) -> bool:
    held = set()
    for broker in (members.brokers[1], members.brokers[MOVING]):
        replica = broker.partitions.replica("orders", index)
        if replica is None:
            return False
        held.add(replica.log.read(0, max_bytes=1 << 24).data)
    return len(held) == 1


def futures_in(tmp_path: Path) -> list[str]:
    return [each.name for each in tmp_path.glob("?/*-future")]


@pytest.mark.parametrize("leader", [1, MOVING], ids=["a follower", "a leader"])
def test_a_killed_broker_resumes_a_move_during_writes(tmp_path: Path, leader: int) -> None:
    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            broker = await begun(members, directories(tmp_path), leader=leader)
            await until(lambda: copied(broker) == 1, "a piece is copied")
            before = broker.logs.get("orders", 0)
            kill(members)
            broker = await members.start(MOVING, directories(tmp_path) | {RATE: "10000000"})
            assert copied(broker) >= 1
            await until(lambda: members.partition(1).leader > 0, "somebody leads")
            for number in range(BATCHES):
                await produce(members, members.partition(1).leader, b"later %d" % number)
            await until(lambda: not len(broker.logs.futures), "the move is over")
            after = broker.logs.get("orders", 0)
            assert before is not None and after is not None
            assert before.directory.path != after.directory.path
            await until(lambda: alike(members), "the replicas are alike")
            assert broker.logs.get("orders", 0) is after and not futures_in(tmp_path)

    run(test())


async def delete(members: Members) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")])
    answer = await members.ask(1, request, DeleteTopicsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE


async def reassign(members: Members) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=[1, 2])
    topic = ReassignableTopic(name="orders", partitions=[partition])
    request = AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=[topic])
    answer = await members.ask(1, request, AlterPartitionReassignmentsResponse)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    await until(lambda: set(members.partition(1).replicas) == {1, 2}, "it is elsewhere")


@pytest.mark.parametrize("is_away", [False, True], ids=["meanwhile", "while it is down"])
@pytest.mark.parametrize("change", [delete, reassign])
def test_a_copy_is_deleted_with_its_replica(
    tmp_path: Path, change: Callable[[Members], asyncio.Future[None]], is_away: bool
) -> None:
    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            broker = await begun(members, directories(tmp_path))
            await until(lambda: copied(broker) == 1, "a piece is copied")
            if is_away:
                kill(members)
            await change(members)
            if is_away:
                broker = await members.start(MOVING, directories(tmp_path))
            await until(lambda: broker.logs.get("orders", 0) is None, "the replica is gone")
            assert copied(broker) == -1 and not futures_in(tmp_path)

    run(test())


def test_moving_back_cancels_a_move_even_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            broker = await begun(members, directories(tmp_path))
            await until(lambda: copied(broker) == 1, "a piece is copied")
            here = broker.logs.get("orders", 0)
            assert here is not None
            await move(members, here.directory.path)
            assert copied(broker) == -1
            kill(members)
            broker = await members.start(MOVING, directories(tmp_path))
            assert copied(broker) == -1 and not futures_in(tmp_path)
            await until(lambda: alike(members), "the replicas are alike")

    run(test())


def test_a_copy_is_truncated_with_its_replica(tmp_path: Path) -> None:
    """Records that only the old leader had are truncated from its log and from its copy."""

    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            settings = directories(tmp_path) | {RATE: "10000000"}
            broker = await begun(members, settings | HELD, leader=MOVING)
            await until(lambda: copied(broker) == 1, "a piece is copied")
            replica = broker.partitions.replica("orders", 0)
            copy = broker.logs.futures.get("orders", 0)
            assert replica is not None and copy is not None
            # As if it had appended that and crashed before replication.
            lost = build_batch([Record(0, NOW_MS, None, b"only here", ())])
            replica.log.append(bytearray(lost), leader_epoch=replica.epoch, now_ms=NOW_MS)
            while copy.log_end_offset < replica.log.log_end_offset:
                broker.mover._copy_piece(replica.log, copy)
            kill(members)
            await until(lambda: members.partition(1).leader == 1, "another leads")
            await produce(members, 1, b"other")
            broker = await members.start(MOVING, settings)
            await until(lambda: not len(broker.logs.futures), "the move is over")
            await until(lambda: alike(members), "the replicas are alike")

    run(test())


def test_the_setting_limits_concurrent_replica_moves(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            one = directories(tmp_path) | {"num.replica.alter.log.dirs.threads": "1"}
            broker = await begun(members, one, partitions=3)
            await until(lambda: copied(broker, 0) == 1, "a piece is copied")
            assert [copied(broker, index) for index in range(3)] == [1, 0, 0]
            await members.stop(MOVING)
            broker = await members.start(MOVING, directories(tmp_path) | {RATE: "10000000"})
            assert len(broker.logs.futures) == 3  # also those that had to wait
            await until(lambda: len(broker.mover._tasks) <= 2, "at most one for each directory")
            await until(lambda: not len(broker.logs.futures), "the moves are over")

    run(test())


class OneIsFull(RealFileSystem):
    """The operating system's files; the directory named by `full` has no space."""

    __slots__ = ("_paths", "full")

    def __init__(self) -> None:
        self.full: str | None = None
        self._paths: dict[int, str] = {}

    def open(self, path: str, *, create: bool = False) -> int:
        fd = super().open(path, create=create)
        self._paths[fd] = path
        return fd

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> int:  # type: ignore[override]
        if self.full is not None and self._paths.get(fd, "").startswith(self.full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwrite(fd, data, offset)


def test_a_move_to_a_full_disk_is_cancelled_and_frees_its_space(tmp_path: Path) -> None:
    async def test() -> None:
        files = OneIsFull()
        async with Members(tmp_path, count=2) as members:
            broker = await begun(members, directories(tmp_path))
            await until(lambda: copied(broker) == 1, "a piece is copied")
            copy = broker.logs.futures.get("orders", 0)
            assert copy is not None
            target = copy.directory.path
            await members.stop(MOVING)
            settings = directories(tmp_path) | {RATE: "1000"}
            files.full = target + "/orders-0."
            broker = await members.start(MOVING, settings, files)
            await until(lambda: copied(broker) == -1, "it is given up")
            assert all(
                directory.is_online for directory in broker.logs.directories
            ) and not futures_in(tmp_path)
            await until(lambda: alike(members), "the replicas are alike")

    run(test())


def test_a_move_to_a_failed_disk_resumes_when_the_disk_returns(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            broker = await begun(members, directories(tmp_path) | {RATE: "300000"})
            await until(lambda: copied(broker) >= 1, "a piece is copied")
            copy = broker.logs.futures.get("orders", 0)
            assert copy is not None
            copy.directory.fail("a test pulled the plug")
            await until(lambda: copied(broker) == -1, "the move has ended")
            replica = broker.partitions.replica("orders", 0)
            assert replica is not None and replica.log.failure is None
            kill(members)
            broker = await members.start(MOVING, directories(tmp_path))
            assert copied(broker) >= 1

    run(test())


def test_a_log_is_not_compacted_while_it_moves(tmp_path: Path) -> None:
    """A copy without a tombstone that was compacted away would restore deleted records."""
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": str(1 << 20),  # each batch has its own
        "min.cleanable.dirty.ratio": "0.01",
    }

    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            settings = directories(tmp_path) | {"log.cleaner.backoff.ms": "600000"}
            broker = await begun(members, settings, configs=compacted, leader=MOVING)
            await until(lambda: copied(broker) == 1, "a piece is copied")
            log = broker.logs.get("orders", 0)
            assert log is not None
            log.flush()
            await broker.cleaner.run_pass()
            assert broker.cleaner.status.logs_cleaned == 0
            await move(members, log.directory.path)  # which ends it
            await broker.cleaner.run_pass()
            assert broker.cleaner.status.logs_cleaned == 1

    run(test())


def test_a_log_that_starts_inside_a_batch_can_be_moved(tmp_path: Path) -> None:
    """DeleteRecords stops at the offset of the client, and batches stay whole."""

    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            broker = await begun(members, directories(tmp_path) | {RATE: "10000000"})
            await until(lambda: not len(broker.logs.futures), "the move is over")
            log = broker.logs.get("orders", 0)
            assert log is not None
            several = [Record(n, NOW_MS, None, b"%d" % n, ()) for n in range(4)]
            log.append(bytearray(build_batch(several)), leader_epoch=0, now_ms=NOW_MS)
            log.delete_before(log.log_end_offset - 2)
            start, end = log.log_start_offset, log.log_end_offset
            other = next(h for h in broker.logs.directories if h.state is not log.directory)
            await move(members, other.path)
            await until(lambda: not len(broker.logs.futures), "the move is over")
            moved = broker.logs.get("orders", 0)
            assert moved is not None and moved.directory is other.state
            assert (moved.log_start_offset, moved.log_end_offset) == (start, end)

    run(test())
