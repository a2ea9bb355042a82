"""aiokafka: producing and consuming with assigned partitions, against one node."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

from support.wire.topics import MakeTopic

T = TypeVar("T")
DEADLINE_S = 30.0


def run(work: Coroutine[object, object, T]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work, DEADLINE_S)

    return asyncio.run(bounded())


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_produced_records_are_consumed(bootstrap: str, topic: str, codec: str | None) -> None:
    async def work() -> None:
        values = [f"value {number}".encode() * 10 for number in range(200)]
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5
        ) as producer:
            sent = [await producer.send(topic, value, partition=0) for value in values]
            offsets = [(await future).offset for future in sent]
        assert offsets == list(range(200))
        assert [value for _, value in await read(bootstrap, topic, 200)] == values

    run(work())


def test_an_idempotent_producer_with_keys_and_headers(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)

    async def work() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, acks="all"
        ) as producer:
            for number in range(60):
                await producer.send_and_wait(
                    topic, b"%d" % number, partition=number % 3, headers=[("n", b"%d" % number)]
                )
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            parts = [TopicPartition(topic, index) for index in range(3)]
            consumer.assign(parts)
            await consumer.seek_to_beginning(*parts)
            found = [await consumer.getone() for _ in range(60)]
            ends = await consumer.end_offsets(parts)
        for partition in range(3):
            values = [int(one.value) for one in found if one.partition == partition]
            assert values == list(range(partition, 60, 3))
        assert all(one.headers == (("n", one.value),) for one in found)
        assert set(ends.values()) == {20}

    run(work())


def test_offsets_by_time(bootstrap: str, topic: str) -> None:
    async def work() -> None:
        base = 1_700_000_000_000
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(5):
                await producer.send_and_wait(
                    topic, b"v", partition=0, timestamp_ms=base + number * 1000
                )
        partition = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            found = await consumer.offsets_for_times({partition: base + 1500})
        assert found[partition].offset == 2

    run(work())


def test_a_message_over_the_limit_is_too_large(bootstrap: str, topic: str) -> None:
    async def work() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, max_request_size=5_000_000
        ) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 2_000_000, partition=0)
            # The producer continues.
            assert (await producer.send_and_wait(topic, b"x", partition=0)).offset == 0

    run(work())


def test_the_admin_client_creates_topics_adds_partitions_and_deletes(
    bootstrap: str, topic: str
) -> None:
    async def work() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            name = f"{topic}-2"
            await admin.create_topics([NewTopic(name, 2, 1, topic_configs={"retention.ms": "1"})])
            again = await admin.create_topics([NewTopic(name, 2, 1)])
            assert again.topic_errors[0][1] == TopicAlreadyExistsError.errno
            await admin.create_partitions({name: NewPartitions(4)})
            (told,) = await admin.describe_topics([name])
            assert len(told["partitions"]) == 4
            await admin.delete_topics([name])
        finally:
            await admin.close()

    run(work())


async def read(bootstrap: str, topic: str, count: int) -> list[tuple[int, bytes | None]]:
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        found = [await consumer.getone() for _ in range(count)]
    return [(message.offset, message.value) for message in found]
