"""Disks of a cluster's brokers: one that fails takes only its own replicas with it."""

from pathlib import Path

from tests.support.members import Members, run, until

from headrace.protocol.errors import ErrorCode
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


def test_what_a_failed_directory_led_is_led_elsewhere_and_the_rest_stays(tmp_path: Path) -> None:
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
            failing = broker.logs.homes[0].directory
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
