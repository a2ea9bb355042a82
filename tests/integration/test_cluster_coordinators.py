"""Groups, transactions and share groups on three brokers: coordinators move, nothing is lost."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from confluent_kafka import (
    Consumer,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from headrace.broker.coordinators.coordinator_runtime import CoordinatorRuntime
from headrace.coordinator.common.shard import Shard
from support.brokers.members import DEADLINE_S, Members, run, until

T = TypeVar("T")

PARTITIONS = 6
INTERNAL = {
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}


async def aside(work: Callable[[], T]) -> T:
    """Clients block, so they run in a thread while the brokers use the event loop."""
    return await asyncio.wait_for(asyncio.to_thread(work), DEADLINE_S * 2)


def bootstrap(members: Members) -> str:
    return ",".join(broker.bootstrap_servers for broker in members.brokers.values())


def create(servers: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(DEADLINE_S)


def produce(servers: str, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, str(value).encode(), partition=value % PARTITIONS)
    assert producer.flush(DEADLINE_S) == 0


def consume(servers: str, group: str, topic: str, count: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.subscribe([topic])
        found: list[int] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), 1.0)
            found += [int(m.value() or b"") for m in messages if m.error() is None]
        if found:
            consumer.commit(asynchronous=False)
        return sorted(found)
    finally:
        consumer.close()


def committed(servers: str, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        return [found.offset for found in consumer.committed(partitions, DEADLINE_S)]
    finally:
        consumer.close()


def host(members: Members, find: Callable[[int], CoordinatorRuntime[Shard]], key: str) -> int:
    """The coordinator of the key, as returned by any broker."""
    return find(next(iter(members.brokers))).leader_of(key)


def test_a_group_resumes_after_its_coordinator_fails(tmp_path: Path) -> None:
    async def test() -> None:
        async with Members(tmp_path, settings=INTERNAL) as members:
            servers = bootstrap(members)
            await aside(lambda: create(servers, "orders"))
            await aside(lambda: produce(servers, "orders", range(60)))
            first = await aside(lambda: consume(servers, "readers", "orders", 60))
            assert first == list(range(60))
            dead = host(members, lambda id_: members.brokers[id_].groups, "readers")
            members.kill(dead)
            live = next(iter(members.brokers.values()))
            await until(lambda: live.groups.leader_of("readers") != dead, "another coordinator")
            assert await aside(lambda: committed(servers, "readers", "orders")) == [10] * PARTITIONS
            await aside(lambda: produce(servers, "orders", range(60, 120)))
            more = await aside(lambda: consume(servers, "readers", "orders", 60))
            assert more == list(range(60, 120))

    run(test())


def test_a_transaction_spans_brokers_and_survives_a_coordinator_failure(tmp_path: Path) -> None:
    """A new coordinator commits records on all brokers together with a group's offsets."""

    async def test() -> None:
        async with Members(tmp_path, settings=INTERNAL) as members:
            servers = bootstrap(members)
            await aside(lambda: create(servers, "orders"))
            producer = Producer({"bootstrap.servers": servers, "transactional.id": "writer"})
            await aside(lambda: producer.init_transactions(DEADLINE_S))

            def write(values: range) -> None:
                producer.begin_transaction()
                for value in values:
                    producer.produce("orders", str(value).encode(), partition=value % PARTITIONS)
                assert producer.flush(DEADLINE_S) == 0

            await aside(lambda: write(range(60)))
            await aside(lambda: producer.commit_transaction(DEADLINE_S))
            await aside(lambda: write(range(60, 120)))
            await aside(lambda: producer.abort_transaction(DEADLINE_S))
            await aside(lambda: write(range(120, 180)))
            dead = host(members, lambda id_: members.brokers[id_].transactions, "writer")
            members.kill(dead)
            await aside(lambda: _commit(producer))
            wanted = [*range(60), *range(120, 180)]
            found = await aside(lambda: consume(servers, "readers", "orders", len(wanted)))
            assert found == wanted

    run(test())


def _commit(producer: Producer) -> None:
    """Retries after retriable errors; the outcome is the same."""
    while True:
        try:
            producer.commit_transaction(DEADLINE_S)
            return
        except KafkaException as error:
            assert error.args[0].retriable(), error


def test_transactional_offsets_are_visible_after_the_commit(tmp_path: Path) -> None:
    """The group's coordinator asks the transaction's, which may be another broker."""

    async def test() -> None:
        async with Members(tmp_path, settings=INTERNAL) as members:
            servers = bootstrap(members)
            await aside(lambda: create(servers, "orders"))
            names = [f"group-{number}" for number in range(8)]
            for number, group in enumerate(names):
                await aside(lambda: _copy(servers, "orders", group, number))  # noqa: B023
            for group in names:
                offsets = await aside(lambda: committed(servers, group, "orders"))  # noqa: B023
                assert offsets[:2] == [7, 8], group

    run(test())


def _copy(servers: str, topic: str, group: str, number: int) -> None:
    """Eight transactional ids and groups: some pairs have one coordinator, some two."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"copier-{number}"})
    try:
        member = consumer.consumer_group_metadata()
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        producer.produce(topic, b"aborted", partition=0)
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 99)], member, DEADLINE_S)
        producer.abort_transaction(DEADLINE_S)
        producer.begin_transaction()
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
        offsets = [TopicPartition(topic, 0, 7), TopicPartition(topic, 1, 8)]
        producer.send_offsets_to_transaction(offsets, member, DEADLINE_S)
        producer.commit_transaction(DEADLINE_S)
    finally:
        consumer.close()


def test_a_share_group_continues_after_a_broker_fails(tmp_path: Path) -> None:
    """Records, state and member sessions are on three brokers; one of them fails."""

    async def test() -> None:
        async with Members(tmp_path, settings=INTERNAL) as members:
            servers = bootstrap(members)
            await aside(lambda: create(servers, "jobs"))
            await aside(lambda: from_the_start(servers, "workers"))
            worker = ShareConsumer({"bootstrap.servers": servers, "group.id": "workers"})
            try:
                worker.subscribe(["jobs"])
                await aside(lambda: produce(servers, "jobs", range(60)))
                assert await aside(lambda: take(worker, set(range(60)))) == set(range(60))
                members.kill(members.controller)
                await aside(lambda: produce(servers, "jobs", range(60, 120)))
                await aside(lambda: take(worker, set(range(60, 120))))
            finally:
                await aside(worker.close)

    run(test())


def from_the_start(servers: str, group: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    resource = ConfigResource(ResourceType.GROUP, group)
    resource.add_incremental_config(
        ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
    )
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(DEADLINE_S)


def take(worker: ShareConsumer, wanted: set[int]) -> set[int]:
    """Polls until all of these records arrived; earlier records may arrive again."""
    found: set[int] = set()
    while not wanted <= found:
        found |= {int(m.value() or b"") for m in worker.poll(0.5) if m.error() is None}
    return found
