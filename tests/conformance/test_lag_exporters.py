"""kafka_exporter, kminion and Burrow agree with the brokers' own lag to the record.

The environment names the programs: HEADRACE_KAFKA_EXPORTER, HEADRACE_KMINION, HEADRACE_BURROW. The
known differences are in the test: exporters see only offsets, so transaction markers and deleted
records are lag for them.
"""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.testing import Cluster
from support.brokers.scraped_metrics import HTTP_PORT, scraped_together
from support.clients.lag_exporters import Burrow, Exporter, KafkaExporter, KMinion, Lags
from support.waiting import wait_for

DEADLINE_S = 60.0
PARTITIONS = 4
RECORDS = 10
PAUSE_S = 1.0  # between two commits of the same offsets


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, settings=HTTP_PORT | {"offsets.topic.num.partitions": "5"}) as started:
        yield started


def commit(cluster: Cluster, group: str, topic: str, *offsets: int) -> None:
    """Commits an offset for each of the first partitions."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    try:
        positions = [TopicPartition(topic, index, offset) for index, offset in enumerate(offsets)]
        consumer.commit(offsets=positions, asynchronous=False)
    finally:
        consumer.close()


def fill(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        producer.produce(topic, b"v", partition=number % PARTITIONS)
    assert producer.flush(DEADLINE_S) == 0


def own_lags(cluster: Cluster) -> Lags:
    found = scraped_together(cluster.brokers.values()).get("kafka_consumergroup_lag", {})
    return {(group, topic, int(index)): int(lag) for (group, topic, index), lag in found.items()}


@pytest.mark.parametrize("exporter", [KafkaExporter, KMinion, Burrow])
def test_an_exporter_agrees_with_the_brokers_to_the_record(
    cluster: Cluster, tmp_path: Path, exporter: type[Exporter]
) -> None:
    servers = cluster.bootstrap_servers.split(",")
    plain, transactional, deleted = (f"t-{uuid.uuid4().hex}" for _ in range(3))
    for topic in (plain, transactional, deleted):
        cluster.headrace.create_topic(topic, partitions=PARTITIONS)
    ahead, behind, ended, late = (f"g-{uuid.uuid4().hex}" for _ in range(4))
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    fill(producer, plain, RECORDS * PARTITIONS)
    fill(producer, deleted, RECORDS * PARTITIONS)
    in_transaction = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": uuid.uuid4().hex}
    )
    in_transaction.init_transactions(DEADLINE_S)
    in_transaction.begin_transaction()
    fill(in_transaction, transactional, PARTITIONS)
    in_transaction.commit_transaction(DEADLINE_S)  # offset 0, and a marker at 1

    def commit_all() -> None:
        commit(cluster, ahead, plain, *[RECORDS] * PARTITIONS)
        commit(cluster, behind, plain, 0, 3, 7)  # none in the last partition
        commit(cluster, behind, transactional, *[0] * PARTITIONS)
        commit(cluster, ended, transactional, *[1] * PARTITIONS)  # the offset after the record
        commit(cluster, late, deleted, 2)

    commit_all()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (done,) = admin.delete_records([TopicPartition(deleted, 0, 6)]).values()
    done.result(DEADLINE_S)
    groups = {ahead, behind, ended, late}
    ours = {key: lag for key, lag in own_lags(cluster).items() if key[0] in groups}
    assert ours == {
        **{(ahead, plain, index): 0 for index in range(PARTITIONS)},
        **{(behind, plain, index): lag for index, lag in enumerate((RECORDS, 7, 3, -1))},
        **{(behind, transactional, index): 2 for index in range(PARTITIONS)},
        **{(ended, transactional, index): 0 for index in range(PARTITIONS)},
        **{(late, deleted, index): -1 for index in range(1, PARTITIONS)},
        (late, deleted, 0): RECORDS - 6,
    }
    expected = dict(ours)
    expected |= {(ended, transactional, index): 1 for index in range(PARTITIONS)}  # the marker
    expected[late, deleted, 0] = RECORDS - 2  # deleted records
    if exporter is KMinion:  # it leaves out partitions without a commit
        expected = {key: lag for key, lag in expected.items() if lag >= 0}
    elif exporter is Burrow:  # it shows no lag for them
        expected = {key: max(0, lag) for key, lag in expected.items()}
    started = exporter(servers, tmp_path)
    theirs: Lags = {}

    def agrees() -> bool:
        nonlocal theirs
        if exporter is Burrow:  # it ignores commits that it reads before it knows the topic
            commit_all()
            time.sleep(PAUSE_S)
        theirs = {key: lag for key, lag in started.lags(groups).items() if key[0] in groups}
        return theirs == expected

    with started.run:
        try:
            wait_for(agrees, "both agree", deadline_s=DEADLINE_S)
        except AssertionError:
            assert theirs == expected, (tmp_path / "out.txt").read_text()[-2000:]
            raise
