"""When a test advances a broker's clock, all due work is done when the call returns.

Everything is asked of the broker, at once and without waiting: that is the promise.
"""

import uuid
from collections.abc import Iterator

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headrace.testing import Broker, Headrace, VirtualClock
from headrace.testing.defaults import TEST_SETTINGS
from support.waiting import wait_for
from support.wire.connection import Wire
from support.wire.groups import join, sync, wait_for_coordinator
from support.wire.transactional_producer import TransactionalProducer

SESSION_S = 30  # of support.wire.groups.join
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=TEST_SETTINGS, clock=VirtualClock()) as broker:
        yield broker


@pytest.fixture
def headrace(broker: Broker) -> Iterator[Headrace]:
    broker.headrace.begin()
    yield broker.headrace
    broker.headrace.clean()


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


def members(headrace: Headrace, group: str) -> int:
    found = headrace.describe_group(group)
    return 0 if found is None else len(found.members)


def test_records_are_deleted_after_their_retention_time(headrace: Headrace) -> None:
    topic = headrace.create_topic(configs={"retention.ms": 24 * 3_600_000})
    headrace.produce(topic, "old")
    headrace.clock.advance(hours=23)
    assert len(headrace.consume(topic)) == 1
    headrace.clock.advance(hours=2)
    assert headrace.consume(topic) == []
    headrace.produce(topic, "new")
    (record,) = headrace.consume(topic)
    assert (record.offset, record.timestamp_ms) == (1, headrace.clock.wall_ms())


def test_a_silent_member_of_a_classic_group_is_removed(headrace: Headrace, wire: Wire) -> None:
    wait_for_coordinator(wire, "silent")
    sync(wire, "silent", *join(wire, "silent", "some"))
    headrace.clock.advance(SESSION_S - 1)
    assert members(headrace, "silent") == 1
    headrace.clock.advance(2)
    assert members(headrace, "silent") == 0
    assert headrace.groups()["silent"] == "Empty"


def test_a_silent_member_of_a_consumer_group_is_removed(headrace: Headrace, wire: Wire) -> None:
    topic = headrace.create_topic()
    wait_for_coordinator(wire, "quiet")
    joined = wire.call(
        ConsumerGroupHeartbeatRequest(
            group_id="quiet",
            member_id=str(uuid.uuid4()),
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        ),
        ConsumerGroupHeartbeatResponse,
    )
    assert joined.error_code == ErrorCode.NONE
    headrace.clock.advance(30)
    assert members(headrace, "quiet") == 1
    headrace.clock.advance(30)
    assert members(headrace, "quiet") == 0


def test_a_transaction_that_exceeds_its_timeout_is_aborted(headrace: Headrace, wire: Wire) -> None:
    topic = headrace.create_topic()
    producer = TransactionalProducer(wire).init(timeout_ms=20_000)
    assert producer.send(topic, b"never") is ErrorCode.NONE
    opened = headrace.transaction(producer.transactional_id)
    assert opened is not None
    assert opened.state == "Ongoing"
    headrace.clock.advance(minutes=1)
    ended = headrace.transaction(producer.transactional_id)
    assert ended is not None
    assert ended.state == "CompleteAbort"
    assert headrace.consume(topic, read_committed=True) == []
    assert len(headrace.consume(topic)) == 1
    code, _ = producer.try_end(commit=True)
    assert code is not ErrorCode.NONE


def test_committed_offsets_of_an_empty_group_expire(headrace: Headrace) -> None:
    topic = headrace.create_topic()
    headrace.commit("forgotten", {(topic, 0): 0})
    headrace.clock.advance(days=6)
    assert headrace.lag("forgotten")
    headrace.clock.advance(days=2)
    assert not headrace.lag("forgotten")


def test_files_of_deleted_topics_are_removed_after_the_delay(
    headrace: Headrace, broker: Broker
) -> None:
    headrace.produce("doomed", "x")
    headrace.clean()
    assert list(broker.data.glob("doomed*-delete"))
    headrace.clock.advance(minutes=2)
    assert not list(broker.data.glob("doomed*-delete"))


def test_moving_the_clock_does_not_expire_connections(headrace: Headrace, wire: Wire) -> None:
    wait_for_coordinator(wire, "any")
    headrace.clock.advance(days=30)
    wait_for_coordinator(wire, "any")


def test_a_restarted_broker_keeps_the_clock() -> None:
    clock = VirtualClock(start_ms=1_000_000_000_000)
    with Broker(settings=TEST_SETTINGS, clock=clock) as broker:
        topic = broker.headrace.create_topic(configs={"retention.ms": 3_600_000})
        broker.headrace.produce(topic, "x")
        broker.restart()
        clock.advance(hours=2)
        assert broker.headrace.consume(topic) == []
        broker.stop()
        clock.advance(hours=1)  # no broker is running to notice
        assert clock.wall_ms() == 1_000_000_000_000 + 3 * 3_600_000


def test_two_brokers_can_share_a_clock() -> None:
    clock = VirtualClock()
    with (
        Broker(settings=TEST_SETTINGS, clock=clock) as one,
        Broker(settings=TEST_SETTINGS, clock=clock) as two,
    ):
        for broker in (one, two):
            broker.headrace.create_topic("t", configs={"retention.ms": 3_600_000})
            broker.headrace.produce("t", "x")
        clock.advance(hours=2)
        assert one.headrace.consume("t") == two.headrace.consume("t") == []


def test_a_broker_on_the_system_clock_has_no_virtual_clock() -> None:
    with pytest.raises(TypeError, match="VirtualClock"):
        _ = Broker().clock


def test_real_clients_form_groups_with_a_stopped_clock(headrace: Headrace) -> None:
    from confluent_kafka import Consumer

    topic = headrace.create_topic()
    headrace.produce(topic, "x")
    consumer = Consumer(
        {
            "bootstrap.servers": headrace.bootstrap_servers,
            "group.id": "still",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    message = wait_for(lambda: consumer.poll(0.2), "a record", deadline_s=DEADLINE_S)
    assert message.value() == b"x"
    consumer.close()
