"""The metrics of real brokers, with librdkafka as their client. Counters are checked exactly."""

import importlib.util
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.broker.coordinators.commit_fast_path import CommitFastPath
from headrace.records.batch_header import HEADER_SIZE
from headrace.testing import Broker, Cluster
from support.clients.http_port import Scrape, scrape
from support.waiting import wait_for
from support.wire.batches import batch, produce
from support.wire.connection import Wire

ROOT = Path(__file__).parents[2]
TRAFFIC = "kafka_server_brokertopicmetrics_"
REQUESTS = "kafka_network_requestmetrics_"
SETTINGS: dict[str, str | int] = {
    "headrace.http.listener": "http://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
}
RECORDS = 250
COMMITS = 40


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as started:
        yield started


def metrics(broker: Broker) -> Scrape:
    assert broker.node is not None
    assert broker.node.http is not None
    return scrape(broker.node.http.address)


def create_topics(broker: Broker | Cluster, *names: str, replicas: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topics = [
        NewTopic(name, num_partitions=1, replication_factor=replicas, config=config)
        for name in names
    ]
    for done in admin.create_topics(topics).values():
        done.result(20)


def write(broker: Broker | Cluster, topic: str, count: int, **settings: object) -> None:
    """Writes `count` records in `count` requests."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, **settings})
    for _ in range(count):
        producer.produce(topic, b"x" * 100)
        producer.flush(20)


def read(broker: Broker | Cluster, topic: str, count: int, group: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    received = 0
    while received < count:
        received += sum(not each.error() for each in consumer.consume(count - received, 20))
    return consumer


def test_records_and_bytes_are_counted_for_each_topic_and_in_total(broker: Broker) -> None:
    create_topics(broker, "orders", "quiet")
    before = metrics(broker)
    write(broker, "orders", RECORDS)
    with closing(read(broker, "orders", RECORDS, "bytes")):
        pass
    after = metrics(broker)
    for labels in ({"topic": "orders"}, {}):
        added = {
            name: after.value(f"{TRAFFIC}{name}_total", **labels)
            - before.value(f"{TRAFFIC}{name}_total", **labels)
            for name in ("messagesin", "bytesin", "bytesout", "totalproducerequests")
        }
        assert added["messagesin"] == added["totalproducerequests"] == RECORDS
        assert added["bytesin"] == added["bytesout"]
        assert added["bytesin"] > RECORDS * (HEADER_SIZE + 100)
    size = after.value("kafka_log_log_size", topic="orders", partition="0")
    assert size == after.value(f"{TRAFFIC}bytesin_total", topic="orders")
    assert after.value("kafka_log_log_logendoffset", topic="orders", partition="0") == RECORDS
    assert after.value("kafka_log_log_numlogsegments", topic="orders", partition="0") == 1
    assert after.value(f"{TRAFFIC}messagesin_total", topic="quiet") == 0
    assert after.has(f"{TRAFFIC}messagesin_total", topic="quiet")


def test_requests_errors_and_times_are_counted_for_each_api(broker: Broker) -> None:
    create_topics(broker, "timed")
    before = metrics(broker)
    write(broker, "timed", RECORDS)
    after = metrics(broker)

    def added(name: str, **labels: str) -> float:
        return after.value(REQUESTS + name, **labels) - before.value(REQUESTS + name, **labels)

    versions = {
        dict(labels)["version"]
        for name, labels in after.samples
        if name == f"{REQUESTS}requests_total" and ("request", "Produce") in labels
    }
    assert sum(added("requests_total", request="Produce", version=v) for v in versions) == RECORDS
    assert added("errors_total", request="Produce", error="NONE") == RECORDS
    assert added("totaltimems_count", request="Produce") == RECORDS
    assert added("remotetimems_count", request="Produce") == RECORDS
    assert (
        0
        < added("localtimems_sum", request="Produce")
        <= added("totaltimems_sum", request="Produce")
    )
    p50, p99 = (
        after.value(f"{REQUESTS}totaltimems", request="Produce", quantile=quantile)
        for quantile in ("0.5", "0.99")
    )
    assert 0 < p50 <= p99
    assert after.value("headrace_api_cpu_seconds_total", request="Produce") > 0


def test_commits_on_the_fast_path_are_counted(broker: Broker) -> None:
    """They never pass dispatch; see `commit_fast_path`."""
    create_topics(broker, "committed")
    write(broker, "committed", 1)
    with closing(read(broker, "committed", 1, "commits")) as consumer:
        before = metrics(broker)
        for offset in range(COMMITS):
            consumer.commit(offsets=[TopicPartition("committed", 0, offset)], asynchronous=False)
        after = metrics(broker)
        assert broker.node is not None
        paths = [each.fast_path for each in broker.node.server.connections]
        assert any(isinstance(each, CommitFastPath) and each.was_used for each in paths)
    name = f"{REQUESTS}totaltimems_count"
    commits = after.value(name, request="OffsetCommit") - before.value(name, request="OffsetCommit")
    assert commits == COMMITS
    assert after.value("kafka_coordinator_group_groupmetadatamanager_numoffsets") >= 1


def test_a_fetch_that_waits_is_counted_once_with_its_wait(broker: Broker) -> None:
    create_topics(broker, "waiting")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "waiting",
            "fetch.wait.max.ms": 5000,
        }
    )
    with closing(consumer):
        consumer.assign([TopicPartition("waiting", 0, 0)])
        purgatory = "kafka_server_delayedoperationpurgatory_purgatorysize"

        def waits() -> bool:
            consumer.poll(0)
            return metrics(broker).value(purgatory, delayedOperation="Fetch") == 1

        wait_for(waits, "the fetch waits")
        before = metrics(broker)
        write(broker, "waiting", 1)
        assert consumer.poll(20) is not None
    after = metrics(broker)
    name = f"{TRAFFIC}totalfetchrequests_total"
    assert after.value(name, topic="waiting") == before.value(name, topic="waiting") + 1
    assert after.value(f"{REQUESTS}remotetimems_sum", request="FetchConsumer") > 0


def test_refused_batches_are_failures(broker: Broker) -> None:
    create_topics(broker, "small", **{"max.message.bytes": "200"})
    before = metrics(broker)
    data = batch(b"x" * 1000)
    with Wire(broker.bootstrap_servers) as wire:
        assert produce(wire, "small", data).error_code == 10
    after = metrics(broker)
    assert after.value(f"{TRAFFIC}failedproducerequests_total", topic="small") == 1
    assert after.value(f"{TRAFFIC}bytesrejected_total", topic="small") == len(data)
    labels = {"request": "Produce", "error": "MESSAGE_TOO_LARGE"}
    name = f"{REQUESTS}errors_total"
    assert after.value(name, **labels) == before.value(name, **labels) + 1
    assert after.value(f"{TRAFFIC}messagesin_total", topic="small") == 0


def test_a_deleted_topic_loses_its_series_and_stays_in_the_total(broker: Broker) -> None:
    create_topics(broker, "short")
    write(broker, "short", 3)
    before = metrics(broker)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics(["short"])["short"].result(20)
    after = metrics(broker)
    name = f"{TRAFFIC}messagesin_total"
    assert before.has(name, topic="short")
    assert not after.has(name, topic="short")
    assert after.value(name) == before.value(name)


def test_unknown_names_of_clients_create_no_series(broker: Broker) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        produce(wire, "unknown", batch(b"x"))  # the first Produce has the series of its API
        before = len(metrics(broker).samples)
        for number in range(50):
            produce(wire, f"unknown-{number}", batch(b"x"))
    assert len(metrics(broker).samples) == before


def test_topics_above_the_limit_have_no_series_but_count() -> None:
    limits = {"headrace.http.max.topics": 3, "headrace.http.max.partitions": 100}
    with Broker(settings=SETTINGS | limits) as limited:
        names = [f"t{number}" for number in range(5)]
        create_topics(limited, *names)
        for name in names:
            write(limited, name, 1)
        found = metrics(limited)
    name = f"{TRAFFIC}messagesin_total"
    assert [topic for topic in names if found.has(name, topic=topic)] == names[:3]
    assert found.value(name) == 5
    assert found.value("headrace_metrics_omitted_topics") == 2


def test_connections_and_clusters_are_counted(broker: Broker) -> None:
    prefix = "kafka_server_socket_server_metrics_"
    labels = {"listener": "PLAINTEXT", "networkProcessor": "0"}
    before = metrics(broker)
    with Wire(broker.bootstrap_servers):
        wait_for(
            lambda: (
                metrics(broker).value(f"{prefix}connection_creation_total", **labels)
                > before.value(f"{prefix}connection_creation_total", **labels)
            ),
            "the connection is counted",
        )
        during = metrics(broker)
    assert during.value(f"{prefix}connection_count", **labels) >= 1
    controller = "kafka_controller_kafkacontroller_"
    assert during.value(f"{controller}activecontrollercount") == 1
    assert during.value(f"{controller}activebrokercount") == 1
    topics = len(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics().topics)
    assert during.value(f"{controller}globaltopiccount") == topics


def test_an_invalid_request_is_counted(broker: Broker) -> None:
    name = "headrace_invalid_requests_total"
    before = metrics(broker).value(name)
    with Wire(broker.bootstrap_servers) as wire:
        wire.socket.sendall(b"\0\0\0\x04\x7f\xff\0\0")
        assert wire.ends()
    assert metrics(broker).value(name) == before + 1


def test_three_brokers_replicate_and_report_a_dead_one() -> None:
    """Sums over brokers are right; the leader reports the follower that is gone."""
    with Cluster(brokers=3, settings=SETTINGS) as cluster:
        create_topics(cluster, "replicated", replicas=3)
        write(cluster, "replicated", 20, acks="all")

        def total(name: str, **labels: str) -> float:
            running = [each for each in cluster.brokers.values() if each.is_running]
            return sum(metrics(each).value(name, **labels) for each in running)

        leader = cluster.leader("replicated")
        bytes_in = total(f"{TRAFFIC}bytesin_total", topic="replicated")
        wait_for(
            lambda: total(f"{TRAFFIC}replicationbytesin_total") == 2 * bytes_in,
            "the followers have all records",
        )
        assert total(f"{TRAFFIC}messagesin_total", topic="replicated") == 20
        assert total(f"{TRAFFIC}replicationbytesout_total") == 2 * bytes_in
        assert total("kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert total("kafka_controller_kafkacontroller_activebrokercount") == 3
        assert total("kafka_server_replicamanager_underreplicatedpartitions") == 0
        assert total(f"{REQUESTS}totaltimems_count", request="FetchFollower") > 0
        follower = next(id_ for id_ in cluster.brokers if id_ != leader)
        cluster.kill(follower)
        wait_for(
            lambda: total("kafka_server_replicamanager_underreplicatedpartitions") == 1,
            "the partition is under-replicated",
        )
        assert total("kafka_server_replicamanager_isrshrinks_total") == 1
        lag = {"topic": "replicated", "partition": "0", "replica": str(follower)}
        assert metrics(cluster.brokers[leader]).has("headrace_replica_lag_records", **lag)


def test_the_guide_lists_all_metrics(broker: Broker) -> None:
    """`tools/metrics_table.py --write` makes the table."""
    spec = importlib.util.spec_from_file_location("metrics_table", ROOT / "tools/metrics_table.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    found = broker.on_loop(lambda: tool.families(broker.node))
    assert tool.table(found) == tool.table_in_page()
    names = [family.name for family in found]
    assert len(names) == len(set(names))
    assert all(family.help.endswith(".") for family in found)
    assert all(family.name.endswith("_total") == (family.kind == "counter") for family in found)
