"""A failed disk of a broker affects only the replicas on that disk."""

import asyncio
from pathlib import Path

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
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
from support.brokers.members import Members, run, until

NOW_MS = 1_700_000_000_000
PARTITIONS = 6
QUICK_LAG = {"replica.lag.time.max.ms": "1500"}


async def create(members: Members, replicas: int = 3) -> None:
    new = CreatableTopic(name="orders", num_partitions=PARTITIONS, replication_factor=replicas)
    answer = await members.ask(1, CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message


async def produce(members: Members, at: int, index: int) -> PartitionProduceResponse:
    batch = build_batch([Record(0, NOW_MS, None, b"value", ())])
    data = TopicProduceData(
        name="orders", partition_data=[PartitionProduceData(index=index, records=batch)]
    )
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
    answer = await members.ask(at, request, ProduceResponse, version=12)
    return answer.responses[0].partition_responses[0]


def test_partitions_led_from_a_failed_directory_move_and_the_rest_stay(tmp_path: Path) -> None:
    directories = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}

    async def test() -> None:
        async with Members(tmp_path, count=2, settings=QUICK_LAG) as members:
            await members.start(3, directories)
            await create(members)
            broker = members.brokers[3]
            for index in range(PARTITIONS):
                leader = members.partition(3, index=index).leader
                assert (await produce(members, leader, index)).error_code == 0
            led = {leader.index for leader in broker.partitions if leader.topic == "orders"}
            failing = broker.logs.directories[0].state
            lost = {log.partition for log in broker.logs if log.directory is failing}
            assert led & lost and led - lost
            failing.fail("a test pulled the plug")
            await until(
                lambda: all(members.partition(1, index=at).leader != 3 for at in led & lost),
                "the lost partitions have other leaders",
            )
            await until(members.agree, "everybody knows")
            assert all(members.partition(1, index=at).leader == 3 for at in led - lost)
            for index in range(PARTITIONS):
                leader = members.partition(1, index=index).leader
                assert (await produce(members, leader, index)).error_code == 0, index

    run(test())


def test_a_follower_with_a_failed_directory_does_not_block_commits(tmp_path: Path) -> None:
    """The replica leaves the ISR although the lag limit is ten minutes here."""
    directories = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}

    async def test() -> None:
        patient = {"replica.lag.time.max.ms": "600000", "min.insync.replicas": "2"}
        async with Members(tmp_path, count=2, settings=patient) as members:
            await members.start(3, directories | patient)
            await create(members)
            broker = members.brokers[3]
            for index in range(PARTITIONS):
                leader = members.partition(3, index=index).leader
                assert (await produce(members, leader, index)).error_code == 0
            failing = broker.logs.directories[0].state
            lost = {log.partition for log in broker.logs if log.directory is failing}
            followed = {at for at in lost if members.partition(1, index=at).leader != 3}
            assert followed
            failing.fail("a test pulled the plug")
            for index in followed:
                leader = members.partition(1, index=index).leader
                assert (await produce(members, leader, index)).error_code == 0, index
                assert 3 not in members.partition(leader, index=index).isr
            await until(members.agree, "everybody knows")
            kept = set(range(PARTITIONS)) - lost
            assert all(3 in members.partition(1, index=at).isr for at in kept)

    run(test())


def test_a_replica_moves_to_another_directory_during_writes(tmp_path: Path) -> None:
    directories = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}

    async def test() -> None:
        async with Members(tmp_path, count=2, settings=QUICK_LAG) as members:
            await members.start(3, directories)
            await create(members)
            broker = members.brokers[3]
            for index in range(PARTITIONS):
                leader = members.partition(3, index=index).leader
                for _ in range(5):
                    assert (await produce(members, leader, index)).error_code == 0
            first, second = broker.logs.directories
            there = [log.partition for log in broker.logs if log.directory is first.state]
            assert there
            writing = asyncio.create_task(keep_producing(members, there))
            answer = await members.ask(3, move(second.path, there), AlterReplicaLogDirsResponse)
            codes = {each.error_code for each in answer.results[0].partitions}
            assert codes == {ErrorCode.NONE}
            await until(lambda: not first.logs, "everything is in the second directory")
            writing.cancel()
            for index in range(PARTITIONS):
                leader = members.partition(1, index=index).leader
                assert (await produce(members, leader, index)).error_code == 0
                await until(lambda at=index: alike(members, at), "the replicas are alike")
            await members.stop(3)
            again = await members.start(3, directories)
            assert sorted(log.partition for log in again.logs) == list(range(PARTITIONS))
            for index in range(PARTITIONS):
                await until(lambda at=index: alike(members, at), "the replicas are alike again")

    run(test())


def test_invalid_directory_moves_are_rejected(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            await create(members, replicas=1)
            here = next(iter(members.brokers[1].partitions)).index
            elsewhere = next(iter(members.brokers[2].partitions)).index
            path = members.brokers[1].logs.directories[0].path
            for where, index, code in (
                ("/nowhere", here, ErrorCode.LOG_DIR_NOT_FOUND),
                (path, 99, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                (path, elsewhere, ErrorCode.REPLICA_NOT_AVAILABLE),
                (path, here, ErrorCode.NONE),
            ):
                answer = await members.ask(1, move(where, [index]), AlterReplicaLogDirsResponse)
                assert answer.results[0].partitions[0].error_code == code

    run(test())


def move(path: str, indexes: list[int]) -> AlterReplicaLogDirsRequest:
    topic = AlterReplicaLogDirTopic(name="orders", partitions=indexes)
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])


async def keep_producing(members: Members, indexes: list[int]) -> None:
    while True:
        for index in indexes:
            leader = members.partition(1, index=index).leader
            assert (await produce(members, leader, index)).error_code == 0


def alike(members: Members, index: int) -> bool:
    """Whether all replicas hold the same bytes."""
    held = set()
    for broker in members.brokers.values():
        replica = broker.partitions.replica("orders", index)
        assert replica is not None
        held.add(replica.log.read(0, max_bytes=1 << 24).data)
    return len(held) == 1
