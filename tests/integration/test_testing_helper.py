"""`Headrace`, the test helper: it creates, writes, reads, reports and cleans up."""

import asyncio
import unittest
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from confluent_kafka import Consumer

from headrace.client.errors import RequestRefused
from headrace.client.results import TopicPartition
from headrace.protocol.errors import ErrorCode
from headrace.testing import AsyncHeadraceTestCase, Broker, Headrace, HeadraceTestCase
from headrace.testing.consumer import DeadlineMissed
from headrace.testing.defaults import TEST_SETTINGS
from headrace.testing.external import ExternalBroker, NotOurs
from support.waiting import wait_for
from support.wire.batches import batch, produce
from support.wire.connection import Wire
from support.wire.groups import join, sync, wait_for_coordinator
from support.wire.topics import create_topic
from support.wire.transactional_producer import TransactionalProducer

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=TEST_SETTINGS) as broker:
        yield broker


@pytest.fixture
def headrace(broker: Broker) -> Iterator[Headrace]:
    broker.headrace.begin()
    yield broker.headrace
    broker.headrace.clean()


def test_produced_records_are_consumed(headrace: Headrace) -> None:
    topic = headrace.create_topic(partitions=3)
    (written,) = headrace.produce(topic, "one", key="k", headers={"h": "x"}, timestamp_ms=5000)
    (record,) = headrace.consume(topic, 1)
    assert (record.partition, record.offset) == (written.partition, written.offset)
    assert (record.key, record.value, record.timestamp_ms) == (b"k", b"one", 5000)
    assert record.headers == (("h", b"x"),)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"value": {"id": 1}}, r"value is a dict: pass bytes, str or None, e.g. json.dumps"),
        ({"value": 5}, r"value is a int: pass bytes, str or None, e.g. str"),
        ({"value": "x", "key": [1]}, r"key is a list: .*json.dumps"),
        ({"value": "x", "headers": {"h": 1}}, r"header 'h' is a int"),
    ],
)
def test_values_that_are_neither_bytes_nor_text_are_rejected(
    headrace: Headrace, fields: dict[str, Any], message: str
) -> None:
    value = fields.pop("value")
    with pytest.raises(TypeError, match=message):
        headrace.produce("t", value, **fields)


def test_records_without_a_key_rotate_over_the_partitions(headrace: Headrace) -> None:
    topic = headrace.create_topic(partitions=3)
    written = headrace.produce(topic, "a", "b", "c", None)
    assert [place.partition for place in written] == [0, 1, 2, 0]
    assert [record.value for record in headrace.consume(topic, partition=0)] == [b"a", None]
    assert sorted(record.value or b"" for record in headrace.consume(topic)) == [
        b"",
        b"a",
        b"b",
        b"c",
    ]


def test_reading_begins_at_the_given_position(headrace: Headrace) -> None:
    headrace.produce("from", "a", "b", "c")
    assert [record.value for record in headrace.consume("from", from_offset=1)] == [b"b", b"c"]


def test_producing_to_a_missing_topic_creates_it(headrace: Headrace) -> None:
    headrace.produce("made", "x")
    assert headrace.topics()["made"] == 1


def test_a_rejected_topic_is_an_error(headrace: Headrace) -> None:
    with pytest.raises(RequestRefused) as refused:
        headrace.create_topic("no/such/name")
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_missing_records_are_an_assertion_error_that_shows_the_received_ones(
    headrace: Headrace,
) -> None:
    headrace.produce("few", "only")
    with pytest.raises(DeadlineMissed, match="got 1") as missed:
        headrace.consume("few", 2, timeout_s=0.2)
    assert [record.value for record in missed.value.records] == [b"only"]
    with pytest.raises(AssertionError, match="nowhere"):
        headrace.consume("nowhere", 1, timeout_s=0.1)


def test_reading_waits_for_later_records(headrace: Headrace, broker: Broker) -> None:
    async def scenario() -> list[bytes | None]:
        reading = asyncio.create_task(headrace.aio.consume("late", 2, timeout_s=DEADLINE_S))
        await headrace.aio.produce("late", "a")
        await headrace.aio.produce("late", "b")
        return [record.value for record in await reading]

    assert asyncio.run(scenario()) == [b"a", b"b"]


def test_committed_reads_exclude_open_and_aborted_transactions(
    headrace: Headrace,
) -> None:
    topic = headrace.create_topic()
    with Wire(headrace.bootstrap_servers) as wire:
        producer = TransactionalProducer(wire).init()
        assert producer.send(topic, b"gone") is ErrorCode.NONE
        producer.abort()
        assert producer.send(topic, b"kept") is ErrorCode.NONE
        producer.commit()
        assert producer.send(topic, b"open") is ErrorCode.NONE
        committed = headrace.consume(topic, read_committed=True)
        assert [record.value for record in committed] == [b"kept"]
        assert len(headrace.consume(topic)) == 3
        producer.abort()


def test_lag_counts_from_the_position_or_from_the_start(headrace: Headrace) -> None:
    topic = headrace.create_topic(partitions=2)
    headrace.produce(topic, "a", "b", "c", partition=0)
    headrace.produce(topic, "d", partition=1)
    headrace.commit("behind", {(topic, 0): 1})
    assert headrace.lag("behind") == {TopicPartition(topic, 0): 2}
    assert headrace.lag("behind", topic) == {
        TopicPartition(topic, 0): 2,
        TopicPartition(topic, 1): 1,
    }
    with pytest.raises(DeadlineMissed, match="behind"):
        headrace.wait_for_lag("behind", topic, timeout_s=0.05)
    headrace.commit("behind", {(topic, 0): 3, (topic, 1): 1})
    headrace.wait_for_lag("behind", topic)


def test_a_tests_groups_and_topics_are_removed_after_it_and_others_stay(broker: Broker) -> None:
    helper = broker.headrace
    helper.begin()
    helper.create_topic("stays")
    helper.commit("group-stays", {("stays", 0): 0})

    second = Headrace(broker)
    second.begin()
    second.create_topic("goes", partitions=3)
    second.commit("group-goes", {("stays", 0): 0, ("goes", 1): 0})
    assert set(second.topics()) >= {"stays", "goes"}
    second.clean()
    second.close()

    assert "stays" in helper.topics()
    assert "goes" not in helper.topics()
    assert "group-stays" in helper.groups()
    assert "group-goes" not in helper.groups()
    helper.clean()
    assert "stays" not in helper.topics()
    assert "group-stays" not in helper.groups()


def test_a_topic_recreated_by_a_test_belongs_to_the_test(broker: Broker) -> None:
    helper = broker.headrace
    helper.begin()
    helper.produce("again", "old")
    helper.clean()
    helper.begin()
    helper.create_topic("again")
    assert helper.consume("again") == []
    helper.clean()
    assert "again" not in helper.topics()


def test_a_group_is_removed_with_its_members(headrace: Headrace) -> None:
    with Wire(headrace.bootstrap_servers) as wire:
        wait_for_coordinator(wire, "left-open")
        sync(wire, "left-open", *join(wire, "left-open", "some"))
        described = headrace.describe_group("left-open")
        assert described is not None
        assert (described.state, len(described.members)) == ("Stable", 1)
        headrace.clean()
        assert "left-open" not in headrace.groups()
        assert headrace.describe_group("left-open") is None


def test_a_broker_killed_by_a_test_is_restarted_for_the_next(broker: Broker) -> None:
    broker.headrace.begin()
    broker.headrace.create_topic("doomed")
    broker.kill()
    broker.headrace.clean()
    assert "doomed" not in broker.headrace.topics()


def test_a_consumers_progress_is_visible_in_its_groups_lag(headrace: Headrace) -> None:
    topic = headrace.create_topic(partitions=2)
    headrace.produce(topic, *(str(number) for number in range(10)))
    consumer = Consumer(
        {
            "bootstrap.servers": headrace.bootstrap_servers,
            "group.id": "follows",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    seen: list[bytes | None] = []

    def read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            seen.append(message.value())
        return len(seen) == 10

    wait_for(read, "ten records", deadline_s=DEADLINE_S)
    assert sum(headrace.lag("follows", topic).values()) == 10
    consumer.commit(asynchronous=False)
    assert sum(headrace.lag("follows", topic).values()) == 0
    consumer.close()


def test_an_external_broker_works_the_same_but_cannot_be_controlled(broker: Broker) -> None:
    external = ExternalBroker(broker.bootstrap_servers)
    helper = external.headrace
    helper.begin()
    helper.produce("outside", "x")
    assert [record.value for record in helper.consume("outside", 1)] == [b"x"]
    with pytest.raises(NotOurs, match="trouble"):
        _ = helper.trouble
    with pytest.raises(NotOurs, match="clock"):
        _ = helper.clock
    helper.clean()
    assert "outside" not in helper.topics()
    external.close()


def test_unittest_classes_share_a_broker_and_clean_up_after_each_test() -> None:
    seen: list[list[str]] = []

    class Orders(HeadraceTestCase):
        settings: ClassVar[dict[str, str]] = {"num.partitions": "2"}

        def test_one(self) -> None:
            seen.append(sorted(self.headrace.topics()))
            self.headrace.produce("orders", "x")
            self.assertEqual(self.headrace.topics(), {"orders": 2})

        test_two = test_one

    class AsyncOrders(AsyncHeadraceTestCase):
        virtual_clock = True

        async def test_three(self) -> None:
            await self.headrace.aio.produce("orders", "x")
            before = self.headrace.clock.wall_ms()
            await self.headrace.aio.advance(minutes=1)
            self.assertEqual(self.headrace.clock.wall_ms(), before + 60_000)

    suite = unittest.TestSuite()
    for case in (Orders, AsyncOrders):
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    result = unittest.TestResult()
    suite.run(result)
    assert result.wasSuccessful(), result.failures + result.errors
    assert (result.testsRun, seen) == (3, [[], []])


def test_other_clients_see_topics_and_records_of_the_helper(headrace: Headrace) -> None:
    with Wire(headrace.bootstrap_servers) as wire:
        create_topic(wire, "wired", 1)
        assert produce(wire, "wired", batch(b"w")).error_code == 0
    assert [record.value for record in headrace.consume("wired", 1)] == [b"w"]
