"""`headrace.testing.Cluster`: the faults that a user's test can inject, and their effects."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from headrace.testing import Cluster
from headrace.testing.cluster import NoSuchBroker

pytestmark = pytest.mark.timeout(180)

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=3, racks=("a", "b", "c")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    running.headrace.begin()
    yield running
    running.headrace.clean()


def wait_for_other_leader(cluster: Cluster, topic: str, old: int) -> int:
    cluster.headrace.wait_for(
        lambda: cluster.leader(topic) != old, "another leads", timeout_s=DEADLINE_S
    )
    return cluster.leader(topic)


def in_sync(cluster: Cluster, topic: str) -> set[int]:
    def ask() -> set[int]:
        from headrace.client.client import ClusterClient

        async def refresh(client: ClusterClient) -> set[int]:
            info = (await client.refresh([topic], timeout_s=DEADLINE_S)).topic(topic)
            return set(info.partitions[0].isr) if info is not None else set()

        return cluster.headrace._call(refresh)

    return ask()


def test_a_new_topic_is_replicated_to_all_brokers(cluster: Cluster) -> None:
    topic = cluster.headrace.create_topic()
    cluster.headrace.produce(topic, "one")
    assert in_sync(cluster, topic) == {1, 2, 3}
    assert cluster.controller in (1, 2, 3)
    assert len(cluster.bootstrap_servers.split(",")) == 3


def test_a_killed_leader_is_replaced_and_catches_up_after_its_restart(cluster: Cluster) -> None:
    topic = cluster.headrace.create_topic()
    cluster.headrace.produce(topic, "before")
    old = cluster.leader(topic)
    cluster.kill(old)
    assert not cluster.brokers[old].is_running
    wait_for_other_leader(cluster, topic, old)
    cluster.headrace.produce(topic, "after")
    assert [each.value for each in cluster.headrace.consume(topic, 2)] == [b"before", b"after"]
    cluster.restart(old)
    cluster.wait_until_healthy()
    assert in_sync(cluster, topic) == {1, 2, 3}


def test_a_paused_broker_loses_leadership_and_acknowledges_nothing_afterwards(
    cluster: Cluster,
) -> None:
    topic = cluster.headrace.create_topic()
    cluster.headrace.produce(topic, "before")
    old = cluster.leader(topic)
    cluster.pause(old)
    wait_for_other_leader(cluster, topic, old)
    cluster.headrace.produce(topic, "meanwhile")
    cluster.resume(old)
    cluster.wait_until_healthy()
    cluster.headrace.produce(topic, "after")
    found = [each.value for each in cluster.headrace.consume(topic, 3)]
    assert found == [b"before", b"meanwhile", b"after"]


def test_an_isolated_leader_does_not_acknowledge_unreplicated_records(
    cluster: Cluster,
) -> None:
    topic = cluster.headrace.create_topic()
    old = cluster.leader(topic)
    lonely = cluster.brokers[old].bootstrap_servers
    cluster.partition(old)
    outcomes: list[KafkaError | None] = []
    producer = Producer(
        {
            "bootstrap.servers": lonely,
            "acks": "all",
            "message.timeout.ms": 3000,
            "socket.timeout.ms": 1000,
        }
    )
    producer.produce(topic, b"lost?", on_delivery=lambda error, _: outcomes.append(error))
    new = wait_for_other_leader(cluster, topic, old)
    assert new != old
    producer.flush(DEADLINE_S)
    cluster.headrace.produce(topic, "kept")
    cluster.heal()
    cluster.wait_until_healthy()
    values = [each.value for each in cluster.headrace.consume(topic)]
    assert values.count(b"kept") == 1
    # Acknowledged records exist, rejected records may exist; no acknowledged record is lost.
    assert outcomes[0] is not None or b"lost?" in values


def test_two_brokers_can_be_partitioned_while_both_stay_in_the_cluster(cluster: Cluster) -> None:
    topic = cluster.headrace.create_topic()
    leader = cluster.leader(topic)
    others = [each for each in (1, 2, 3) if each != leader]
    cluster.partition(others[0], others[1])
    cluster.headrace.produce(topic, "one")
    assert cluster.leader(topic) == leader
    cluster.heal()
    assert len(cluster.headrace.consume(topic, 1)) == 1


def test_a_slow_disk_delays_produce_requests(cluster: Cluster) -> None:
    topic = cluster.headrace.create_topic()
    cluster.headrace.produce(topic, "warm")
    for broker in cluster.brokers:
        cluster.slow_disk(broker, 0.3)
    import time

    began = time.monotonic()
    cluster.headrace.produce(topic, "slow")
    assert time.monotonic() - began >= 0.3


def test_a_controlled_shutdown_does_not_interrupt_producers(cluster: Cluster) -> None:
    topic = cluster.headrace.create_topic()
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True}
    )
    stop, sent = threading.Event(), 0
    failed: list[object] = []

    def load() -> None:
        nonlocal sent
        while not stop.is_set():
            producer.produce(
                topic, str(sent).encode(), on_delivery=lambda e, _: failed.append(e) if e else None
            )
            sent += 1
            producer.poll(0.002)

    loader = threading.Thread(target=load)
    loader.start()
    try:
        for broker in (1, 2, 3):
            cluster.restart(broker)
            cluster.wait_until_healthy()
    finally:
        stop.set()
        loader.join()
    assert producer.flush(DEADLINE_S) == 0
    assert not failed
    values = [int(each.value or b"-1") for each in cluster.headrace.consume(topic, sent)]
    assert values == list(range(sent))


def test_consumer_groups_continue_after_their_coordinator_fails(cluster: Cluster) -> None:
    topic = cluster.headrace.create_topic(partitions=3)
    cluster.headrace.produce(topic, *(str(number) for number in range(30)))
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        seen = []
        while len(seen) < 10:
            message = consumer.poll(DEADLINE_S)
            assert message is not None
            if message.error() is None:
                seen.append(message.value())
        coordinator = cluster.leader("__consumer_offsets")
        cluster.kill(coordinator)
        while len(seen) < 30:
            message = consumer.poll(DEADLINE_S)
            assert message is not None
            if message.error() is None:
                seen.append(message.value())
        assert len(set(seen)) == 30
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    cluster.headrace.wait_for_lag(topic, topic, timeout_s=DEADLINE_S)


def test_invalid_cluster_operations_are_errors(cluster: Cluster) -> None:
    with pytest.raises(NoSuchBroker, match="9"):
        cluster.kill(9)
    with pytest.raises(TypeError, match=r"brokers\[1\]"):
        _ = cluster.trouble
    with pytest.raises(TypeError, match="clock"):
        _ = cluster.clock
    with pytest.raises(ValueError, match="rack"):
        Cluster(2, racks=("a",))
    with pytest.raises(ValueError, match="at least"):
        Cluster(0)


def test_a_broker_can_join_and_faults_can_target_one_broker() -> None:
    with Cluster(brokers=1) as cluster:
        assert cluster.add() == 2
        cluster.wait_until_healthy()
        cluster.headrace.create_topic("t")
        fault = cluster.brokers[cluster.leader("t")].trouble.fail(
            "Produce", "NOT_LEADER_OR_FOLLOWER"
        )
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("t", b"x")
        assert producer.flush(DEADLINE_S) == 0
        assert fault.hits == 1


def test_the_fixture_gives_a_clean_cluster(headrace_cluster: Cluster) -> None:
    headrace_cluster.headrace.produce("orders", "one")
    headrace_cluster.kill(1)
    assert len(headrace_cluster.headrace.consume("orders", 1)) == 1


def test_the_fixture_gives_a_clean_cluster_again(headrace_cluster: Cluster) -> None:
    assert all(broker.is_running for broker in headrace_cluster.brokers.values())
    assert headrace_cluster.headrace.topics() == {}


def test_a_cluster_works_from_asynchronous_code() -> None:
    async def use() -> int | None:
        async with Cluster(1) as cluster:
            assert cluster.brokers[1].is_running
            return cluster.controller

    assert asyncio.run(use()) == 1
