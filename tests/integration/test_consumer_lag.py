"""Lag of consumers of every protocol, computed by the brokers of a cluster."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random

import pytest
from confluent_kafka import Consumer, Message, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.client.admin.shares import SharePosition, share_offsets
from headrace.client.client import ClusterClient
from headrace.client.results import TopicPartition as ListedPartition
from headrace.clock import SystemClock
from headrace.testing import Cluster
from support.brokers.scraped_metrics import HTTP_PORT, Families, scraped_together
from support.waiting import wait_for
from support.wire.batches import topic_id_of
from support.wire.connection import Wire
from support.wire.share_member import ShareMember, set_group_config

DEADLINE_S = 60.0
PARTITIONS = 3
RECORDS = 4  # in each partition


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = HTTP_PORT | {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "3",
        "share.coordinator.state.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
    }
    with Cluster(brokers=3, settings=settings) as started:
        yield started


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex}"
    cluster.headrace.create_topic(name, partitions=PARTITIONS)
    return name


def metrics(cluster: Cluster) -> Families:
    return scraped_together(cluster.brokers.values())


def until(cluster: Cluster, holds: Callable[[Families], object], what: str) -> Families:
    """The metrics once they are as expected."""
    last: Families = {}

    def reached() -> Families | None:
        nonlocal last
        last = metrics(cluster)
        return last if holds(last) else None

    try:
        return wait_for(reached, what, deadline_s=DEADLINE_S)
    except AssertionError as error:
        raise AssertionError(f"{error}; the last metrics were {last}") from None


def value(found: Families, name: str, *labels: str) -> float | None:
    return found.get(name, {}).get(labels)


def fill(cluster: Cluster, topic: str, timestamp: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(RECORDS * PARTITIONS):
        producer.produce(topic, b"v", partition=number % PARTITIONS, timestamp=timestamp)
    assert producer.flush(DEADLINE_S) == 0


def read(
    consumer: Consumer | ShareConsumer, count: int, each: Callable[[Message], None] = lambda _: None
) -> None:
    give_up = time.monotonic() + DEADLINE_S
    left = count
    while left:
        assert time.monotonic() < give_up, f"{left} records did not come"
        polled = consumer.poll(0.5)
        single = polled is None or isinstance(polled, Message)
        for message in [polled] if single else polled:
            if message is not None and message.error() is None and left:
                each(message)
                left -= 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_coordinator_reports_the_lag_of_a_group_on_all_leaders(
    cluster: Cluster, topic: str, protocol: str
) -> None:
    group = f"g-{uuid.uuid4().hex}"
    written_ms = int(time.time() * 1000) - 3_600_000
    fill(cluster, topic, timestamp=written_ms)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        read(consumer, 1)  # it has joined
        offsets = [TopicPartition(topic, number, number + 1) for number in range(PARTITIONS)]
        consumer.commit(offsets=offsets, asynchronous=False)
        found = until(
            cluster,
            lambda found: value(found, "kafka_consumergroup_lag_sum", group, topic) == 3 + 2 + 1,
            "the lag is known",
        )
        assert found["kafka_consumergroup_members"][group,] == 1
    finally:
        consumer.close()
    for number in range(PARTITIONS):
        labels = (group, topic, str(number))
        assert found["kafka_consumergroup_current_offset"][labels] == number + 1
        assert found["kafka_consumergroup_lag"][labels] == RECORDS - number - 1
        seconds = found["kafka_consumergroup_group_lag_seconds"][labels]
        assert seconds == pytest.approx(3600, abs=DEADLINE_S)
        assert found["kafka_topic_partition_current_offset"][labels[1:]] == RECORDS
        assert found["kafka_topic_partition_leader"][labels[1:]] == cluster.leader(topic, number)
        assert found["kafka_topic_partition_in_sync_replica"][labels[1:]] == 3
    assert found["kafka_consumergroup_current_offset_sum"][group, topic] == 1 + 2 + 3
    assert found["kafka_topic_partitions"][topic,] == PARTITIONS
    assert found["kafka_brokers"][()] == 3
    assert {id_ for id_, _ in found["kafka_broker_info"]} == {"1", "2", "3"}


async def described_positions(
    cluster: Cluster, group: str, *, locks: bool = False
) -> dict[ListedPartition, SharePosition]:
    """The answer of DescribeShareGroupOffsets; other brokers lead two of the partitions."""
    async with ClusterClient(
        cluster.bootstrap_servers, client_id="test", clock=SystemClock(), random=Random(1)
    ) as client:
        return await share_offsets(client, group, timeout_s=DEADLINE_S, locks=locks)


def test_a_share_group_lags_by_the_records_that_are_not_finished(
    cluster: Cluster, topic: str
) -> None:
    group = f"g-{uuid.uuid4().hex}"
    fill(cluster, topic)
    with Wire(cluster.bootstrap_servers.split(",")[0]) as wire:
        set_group_config(wire, group, share_auto_offset_reset="earliest")
    consumer = ShareConsumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "share.acknowledgement.mode": "implicit",
        }
    )
    consumer.subscribe([topic])
    try:
        read(consumer, RECORDS * PARTITIONS)
        consumer.commit_sync()
        lag = "headrace_sharegroup_lag_sum"
        found = until(cluster, lambda found: value(found, lag, group, topic) == 0, "all is read")
        assert found["headrace_sharegroup_max_lag_seconds"][group,] == 0
        fill(cluster, topic)
        found = until(cluster, lambda found: value(found, lag, group, topic), "new records count")
        positions = asyncio.run(described_positions(cluster, group))
    finally:
        consumer.close()
    assert found["headrace_sharegroup_members"][group,] == 1
    for number in range(PARTITIONS):
        labels = (group, topic, str(number))
        assert found["headrace_sharegroup_start_offset"][labels] <= RECORDS
        assert found["headrace_sharegroup_lag"][labels] == RECORDS
        assert 0 <= found["headrace_sharegroup_lag_seconds"][labels] < DEADLINE_S
        described = positions[ListedPartition(topic, number)]
        assert described.lag == RECORDS
        assert 0 <= described.lag_ms < DEADLINE_S * 1000
    assert value(found, "kafka_consumergroup_lag_sum", group, topic) is None
    check_locks(cluster, group, topic)


def check_locks(cluster: Cluster, group: str, topic: str) -> None:
    """The coordinator tells the locks of all leaders, and each leader has metrics of its own."""
    with ExitStack() as opened:
        for number in range(PARTITIONS):
            leader = cluster.brokers[cluster.leader(topic, number)]
            wire = opened.enter_context(Wire(leader.bootstrap_servers))
            member = ShareMember(
                wire, group, topic_id_of(wire, topic), f"m-{number}", partitions=(number,)
            )
            wait_for(
                lambda member=member, number=number: member.fetch()[number].acquired_records,
                "the new records are acquired",
                deadline_s=DEADLINE_S,
            )
        positions = asyncio.run(described_positions(cluster, group, locks=True))
        found = metrics(cluster)
    for number in range(PARTITIONS):
        locks = positions[ListedPartition(topic, number)].locks
        assert locks is not None
        assert locks.acquired == sum(lock.records for lock in locks.locks) == RECORDS
        assert {lock.member for lock in locks.locks} == {f"m-{number}"}
        held = found["headrace_sharegroup_acquired_records"]
        assert held[group, topic, str(number)] == RECORDS


def transactional(cluster: Cluster) -> Producer:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": uuid.uuid4().hex}
    )
    producer.init_transactions(DEADLINE_S)
    return producer


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def test_neither_markers_nor_aborted_records_are_lag_and_an_open_transaction_is_named(
    cluster: Cluster, topic: str
) -> None:
    group = f"g-{uuid.uuid4().hex}"
    labels = (group, topic, "0")
    producer = transactional(cluster)

    def lag_is(records: int) -> Callable[[Families], bool]:
        return lambda found: value(found, "kafka_consumergroup_lag", *labels) == records

    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, b"v", partition=0)
    producer.commit_transaction(DEADLINE_S)  # offsets 0 to 2, a marker at 3
    commit(cluster, group, topic, 2)
    found = until(cluster, lag_is(2), "one record and the marker are left")
    commit(cluster, group, topic, 3)  # the offset after the last record, as clients commit it
    found = until(cluster, lag_is(0), "only the marker is left")
    assert value(found, "kafka_topic_partition_current_offset", topic, "0") == 4

    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    producer.flush(DEADLINE_S)  # offset 4
    found = until(cluster, lag_is(1), "the record of the open transaction counts")
    held_back = found["headrace_consumergroup_lag_held_back"]
    assert held_back[labels] == 1
    (waiting,) = (
        (each, seconds)
        for each, seconds in found["headrace_partition_open_transaction_seconds"].items()
        if each[:2] == (topic, "0")
    )
    assert int(waiting[0][2]) >= 0
    assert 0 <= waiting[1] < DEADLINE_S
    producer.abort_transaction(DEADLINE_S)
    found = until(cluster, lag_is(0), "an aborted record is no lag")
    assert value(found, "kafka_topic_partition_current_offset", topic, "0") == 6
    assert not value(found, "headrace_consumergroup_lag_held_back", *labels)
    assert value(found, "kafka_consumergroup_group_lag_seconds", *labels) == 0
    assert value(found, "kafka_consumergroup_lag", group, topic, "1") == -1  # nothing committed
    assert value(found, "kafka_consumergroup_lag_sum", group, topic) == 0


def test_deleted_records_and_deleted_topics_are_no_lag(cluster: Cluster, topic: str) -> None:
    group = f"g-{uuid.uuid4().hex}"
    fill(cluster, topic)
    commit(cluster, group, topic, 1)
    labels = (group, topic, "0")
    until(
        cluster,
        lambda found: value(found, "kafka_consumergroup_lag", *labels) == RECORDS - 1,
        "the lag is known",
    )
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, RECORDS - 1)]).values()
    deleted.result(DEADLINE_S)
    found = until(
        cluster,
        lambda found: value(found, "kafka_consumergroup_lag", *labels) == 1,
        "deleted records do not count",
    )
    assert value(found, "kafka_topic_partition_oldest_offset", topic, "0") == RECORDS - 1
    admin.delete_topics([topic])[topic].result(DEADLINE_S)
    until(
        cluster,
        lambda found: value(found, "kafka_consumergroup_lag", *labels) is None,
        "the topic has no series any more",
    )
