"""Compaction of `__consumer_offsets` and `__transaction_state` keeps the current state."""

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from headrace.storage.log.log import Log
from headrace.testing import Broker
from support.waiting import wait_for
from support.wire.connection import Wire
from support.wire.topics import create_topic

DEADLINE_S = 60.0
SETTINGS = {
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.delete.retention.ms": "0",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.segment.delete.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as started, Wire(started.bootstrap_servers) as wire:
        create_topic(wire, "work", 1)
        yield started


def log_of(broker: Broker, topic: str) -> Log:
    assert broker._running is not None
    found = broker._running.broker.logs.get(topic, 0)
    assert found is not None
    return found


def compact(broker: Broker, topic: str) -> int:
    """Closes the active segment and waits for the cleaner; returns how many bytes are left."""
    assert broker._running is not None
    node = broker._running.broker
    log = log_of(broker, topic)

    async def roll() -> None:
        log.roll()

    asyncio.run_coroutine_threadsafe(roll(), broker._running._loop).result(DEADLINE_S)
    end = log.local.segments.items[-1].base_offset
    wait_for(
        lambda: (node.logs.cleaner_offset(log) or 0) >= end,
        f"{topic} is clean up to {end}",
        deadline_s=DEADLINE_S,
    )
    return log.size_bytes


def committed(broker: Broker, group: str) -> int:
    """The group's offset, once its coordinator is available."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})

    def ask() -> ConsumerGroupTopicPartitions | None:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition("work", 0)])
        (answer,) = admin.list_consumer_group_offsets([asked], request_timeout=30).values()
        try:
            return answer.result(60)
        except KafkaException:
            return None

    (found,) = wait_for(ask, "an answer", deadline_s=DEADLINE_S).topic_partitions
    return int(found.offset)


def consumer_of(broker: Broker, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )


def test_committed_offsets_survive_compaction_and_a_restart(broker: Broker) -> None:
    consumer = consumer_of(broker, "plain")
    for offset in range(1, 60):
        consumer.commit(offsets=[TopicPartition("work", 0, offset)], asynchronous=False)
    consumer.close()
    before = log_of(broker, "__consumer_offsets").size_bytes
    assert compact(broker, "__consumer_offsets") < before / 4
    assert committed(broker, "plain") == 59
    broker.restart()
    assert committed(broker, "plain") == 59


@pytest.mark.slow
def test_offsets_of_transactions_survive_compaction_and_a_restart(broker: Broker) -> None:
    consumer = consumer_of(broker, "exact")
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": "t",
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    last = 0
    for number in range(1, 20):
        producer.begin_transaction()
        producer.produce("work", b"%d" % number)
        producer.send_offsets_to_transaction(
            [TopicPartition("work", 0, number)], consumer.consumer_group_metadata(), 60
        )
        if number % 3:
            producer.commit_transaction(60)
            last = number
        else:
            producer.abort_transaction(60)
        if number % 6 == 0:  # several passes: markers are deleted after the records before them
            compact(broker, "__consumer_offsets")
            compact(broker, "__transaction_state")
            assert committed(broker, "exact") == last
    consumer.close()
    broker.restart()
    assert committed(broker, "exact") == last
    producer.begin_transaction()
    producer.produce("work", b"after")
    producer.commit_transaction(60)
