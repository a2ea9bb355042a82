"""Transactions through confluent-kafka, aiokafka and kafka-python, as applications write them."""

import asyncio
import contextlib
import warnings
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from support.waiting import wait_for
from support.wire.topics import MakeTopic

with warnings.catch_warnings():
    # It reads its schemas through an importlib API that newer Python versions deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.structs import OffsetAndMetadata

    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as PythonTopicPartition

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

DEADLINE_S = 60.0
NewName = Callable[[], str]


def committed_values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """Reads `count` records of partition 0 with read_committed, and then to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: list[bytes] = []

    def at_end() -> bool:
        message = consumer.poll(1.0)
        if message is None:
            return False
        if message.error():
            return len(found) >= count
        found.append(message.value())
        return False

    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        wait_for(at_end, f"the end after {count} committed records", deadline_s=DEADLINE_S)
    finally:
        consumer.close()
    return found


@contextlib.contextmanager
def transactional(bootstrap: str, transactional_id: str) -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(DEADLINE_S)
    yield producer
    with contextlib.suppress(KafkaException):  # of a fenced producer
        producer.flush(5)


# --- confluent-kafka ------------------------------------------------------------------------------


def test_confluent_commits_and_aborts(bootstrap: str, topic: str, new_name: NewName) -> None:
    with transactional(bootstrap, new_name()) as producer:
        for number in range(5):
            producer.begin_transaction()
            for part in range(10):
                producer.produce(topic, b"%d/%d" % (number, part))
            if number % 2:
                producer.flush(DEADLINE_S)
                producer.abort_transaction(DEADLINE_S)
            else:
                producer.commit_transaction(DEADLINE_S)
    kept = [b"%d/%d" % (number, part) for number in (0, 2, 4) for part in range(10)]
    assert committed_values(bootstrap, topic, 30) == kept


def test_confluent_fences_the_earlier_producer(
    bootstrap: str, topic: str, new_name: NewName
) -> None:
    transactional_id = new_name()
    with transactional(bootstrap, transactional_id) as old:
        old.begin_transaction()
        old.produce(topic, b"old")
        old.flush(DEADLINE_S)
        with transactional(bootstrap, transactional_id) as new:
            new.begin_transaction()
            new.produce(topic, b"new")
            new.commit_transaction(DEADLINE_S)
            with pytest.raises(KafkaException) as raised:
                old.commit_transaction(DEADLINE_S)
            assert raised.value.args[0].fatal()
    assert committed_values(bootstrap, topic, 1) == [b"new"]


@pytest.mark.slow
def test_confluent_consumes_transforms_and_produces_exactly_once(
    bootstrap: str, make_topic: MakeTopic, new_name: NewName
) -> None:
    """Crashes before and after the commit repeat the input; the output has each record once."""
    source, target, group_id = make_topic(), make_topic(), new_name()
    plain = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        plain.produce(source, b"%d" % number)
    plain.flush(DEADLINE_S)
    transactional_id = new_name()
    for commits in (False, True, False, True):
        _transform(bootstrap, source, target, group_id, transactional_id, commits=commits)
    assert committed_values(bootstrap, target, 20) == [b"%d!" % number for number in range(20)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (listed,) = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group_id, [TopicPartition(source, 0)])]
    ).values()
    (position,) = listed.result(DEADLINE_S).topic_partitions
    assert position.offset == 20


def _transform(
    bootstrap: str, source: str, target: str, group_id: str, transactional_id: str, *, commits: bool
) -> None:
    """Processes ten records in one transaction, from the group's committed offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    try:
        with transactional(bootstrap, transactional_id) as producer:
            (stored,) = consumer.committed([TopicPartition(source, 0)], DEADLINE_S)
            consumer.assign([TopicPartition(source, 0, max(stored.offset, 0))])
            producer.begin_transaction()
            batch: list[bytes] = []

            def full() -> bool:
                message = consumer.poll(0.5)
                if message is not None and not message.error():
                    batch.append(message.value())
                return len(batch) == 10

            wait_for(full, "ten records", deadline_s=DEADLINE_S)
            for value in batch:
                producer.produce(target, value + b"!")
            producer.send_offsets_to_transaction(
                consumer.position([TopicPartition(source, 0)]),
                consumer.consumer_group_metadata(),
                DEADLINE_S,
            )
            if commits:
                producer.commit_transaction(DEADLINE_S)
            else:
                producer.flush(DEADLINE_S)  # and the process dies
    finally:
        consumer.close()


# --- aiokafka -------------------------------------------------------------------------------------


def test_aiokafka_commits_aborts_and_sends_offsets(
    bootstrap: str, topic: str, new_name: NewName
) -> None:
    group_id = new_name()

    async def work() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=new_name())
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"kept", partition=0)
                position = {AioTopicPartition(topic, 0): 7}
                await producer.send_offsets_to_transaction(position, group_id)
            with contextlib.suppress(ValueError):
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"dropped", partition=0)
                    raise ValueError("an application error aborts")
            async with producer.transaction():
                await producer.send_and_wait(topic, b"kept too", partition=0)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            found = [(await consumer.getone()).value for _ in range(2)]
        finally:
            await consumer.stop()
        assert found == [b"kept", b"kept too"]

    asyncio.run(asyncio.wait_for(work(), DEADLINE_S))
    assert _committed(bootstrap, group_id, topic) == 7


def _committed(bootstrap: str, group_id: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    try:
        (position,) = consumer.committed([TopicPartition(topic, 0)], DEADLINE_S)
        return int(position.offset)
    finally:
        consumer.close()


# --- kafka-python ---------------------------------------------------------------------------------


def test_kafka_python_commits_aborts_and_sends_offsets(
    bootstrap: str, topic: str, new_name: NewName
) -> None:
    group_id = new_name()
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=new_name())
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"kept", partition=0).get(DEADLINE_S)
        offsets = {PythonTopicPartition(topic, 0): OffsetAndMetadata(7, "", -1)}
        producer.send_offsets_to_transaction(offsets, group_id)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"dropped", partition=0).get(DEADLINE_S)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"kept too", partition=0).get(DEADLINE_S)
        producer.commit_transaction()
    finally:
        producer.close(timeout=10)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, isolation_level="read_committed"
    )
    found: list[bytes] = []
    try:
        consumer.assign([PythonTopicPartition(topic, 0)])
        consumer.seek_to_beginning()

        def enough() -> bool:
            for records in consumer.poll(timeout_ms=200).values():
                found.extend(record.value for record in records)
            return len(found) >= 2

        wait_for(enough, "two committed records", deadline_s=DEADLINE_S)
    finally:
        consumer.close()
    assert found == [b"kept", b"kept too"]
    assert _committed(bootstrap, group_id, topic) == 7
