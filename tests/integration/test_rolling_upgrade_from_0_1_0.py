"""Brokers of version 0.1.0 and of this version share a cluster: a rolling upgrade and back.

tests/data/0.1.0/code.tar.xz has the broker's code of 0.1.0. Under idempotent producers,
transactions and consumer groups, each broker is replaced by the new version, and then by the old
one again.
"""

import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from headrace.zookeeper_server import ZooKeeperServer
from support.brokers.processes import BrokerProcess
from support.cli.command import Cli
from support.clients.steady_load import SteadyLoad
from support.storage.old_data import unpack
from support.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("java") is None, reason="ZooKeeper needs Java"),
]

IDS = (1, 2, 3)
PARTITIONS = 3
DEADLINE_S = 60.0
SETTINGS = {
    "zookeeper.session.timeout.ms": 30_000,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "num.partitions": PARTITIONS,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.min.isr": 2,
    "group.initial.rebalance.delay.ms": 0,
}


class Group:
    """One member that reads a topic and commits what it has read, until its block ends."""

    def __init__(self, servers: str, group: str, topic: str, **config: object) -> None:
        self._config = {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **config,
        }
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.next: dict[int, int] = {}
        self.gaps: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def records(self) -> int:
        return sum(self.next.values())

    def committed(self) -> dict[int, int]:
        """The group's offsets, which one of the old brokers has now."""
        consumer = Consumer({**self._config, "group.protocol": "classic"})
        try:
            asked = [TopicPartition(self._topic, each) for each in self.next]
            return {each.partition: each.offset for each in consumer.committed(asked, DEADLINE_S)}
        finally:
            consumer.close()

    def _run(self) -> None:
        consumer = Consumer(self._config)
        consumer.subscribe([self._topic])
        try:
            while not self._stop.is_set():
                for message in consumer.consume(500, timeout=0.1):
                    if message.error() is None:
                        self._read(message.partition(), message.offset())
                if self.next:
                    self._commit(consumer)
            self._commit(consumer)
        finally:
            consumer.close()

    def _read(self, partition: int, offset: int) -> None:
        expected = self.next.get(partition, 0)
        if offset > expected:
            self.gaps.append(f"{partition}: {offset} after {expected - 1}")
        self.next[partition] = max(expected, offset + 1)

    def _commit(self, consumer: Consumer) -> None:
        positions = [
            TopicPartition(self._topic, each, offset) for each, offset in self.next.items()
        ]
        try:
            consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException:
            if self._stop.is_set():  # before, it is tried again with the next records
                raise


class Transactions:
    """Commits transactions of two records, one after the other, until its block ends."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.committed = 0
        self.error: KafkaException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._servers, "transactional.id": "rolling", "linger.ms": 0}
        )
        try:
            producer.init_transactions(DEADLINE_S)
            while not self._stop.is_set():
                self._transaction(producer)
        except KafkaException as error:
            self.error = error

    def _transaction(self, producer: Producer) -> None:
        producer.begin_transaction()
        value = str(self.committed).encode()
        for partition in (0, 1):
            producer.produce(self._topic, value, partition=partition)
        while True:
            try:
                producer.commit_transaction(DEADLINE_S)
            except KafkaException as failed:
                if failed.args[0].retriable():
                    continue
                if not failed.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(DEADLINE_S)
                return
            self.committed += 1
            return

    def check(self, servers: str) -> None:
        """Readers of committed records see each committed number once, in order."""
        assert self.error is None
        assert self.committed > 0
        expected = [str(number).encode() for number in range(self.committed)]
        assert [committed_values(servers, self._topic, each) for each in (0, 1)] == [expected] * 2


def committed_values(servers: str, topic: str, partition: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found: list[bytes] = []
    try:
        while True:
            for message in consumer.consume(500, timeout=1.0):
                if message.error() is not None:
                    return found
                found.append(message.value())
    finally:
        consumer.close()


class MixedCluster:
    """Three broker processes, each on the old or on the new code."""

    def __init__(self, home: Path, zookeeper: str) -> None:
        self.old = unpack("0.1.0", "code", home / "code")
        settings = {**SETTINGS, "zookeeper.connect": zookeeper}
        self.brokers = {
            id_: BrokerProcess(home / str(id_), settings={**settings, "broker.id": id_})
            for id_ in IDS
        }
        self.cli = Cli(self.servers, home)

    @property
    def servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.code = self.old
            broker.launch()
        for broker in self.brokers.values():
            broker.wait_until_serving()

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def controller(self) -> int:
        return int(self.cli.ok("cluster", "controller").split()[0])

    def replace(self, id_: int, code: Path | None) -> None:
        """One step of the guide: wait, stop, start the other version, wait."""
        broker = self.brokers[id_]
        assert broker.stop() == 0
        broker.code = code
        broker.start()
        assert self.cli.ok("cluster", "under-replicated", "--wait", "60") == "none\n"

    def use_each_broker(self, prefix: str) -> None:
        """Each broker forwards or decides a change, and each of the others learns of it."""
        brokers = [Cli(each.bootstrap_servers, each.data) for each in self.brokers.values()]
        for first, second, third in (brokers, brokers[1:] + brokers[:1], brokers[2:] + brokers[:2]):
            name = f"{prefix}-{brokers.index(first)}"
            first.ok("topic", "create", name, "-p", "1")
            wait_for(lambda: second("topic", "describe", name).code == 0, "the second knows it")  # noqa: B023
            second.ok("config", "set", "topic", name, "retention.ms=1000000")
            wait_for(
                lambda: "1000000" in third("topic", "describe", name).stdout,  # noqa: B023
                "the third knows the setting",
            )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperServer(tmp_path / "zookeeper"))
        mixed = MixedCluster(tmp_path, zookeeper.address)
        stack.callback(mixed.close)
        mixed.start()
        yield mixed


def _refuses_a_user(cluster: MixedCluster, old_broker: int) -> bool:
    """Whether the controller has refused it: a broker of 0.1.0 does not know the request."""
    refused = cluster.cli("user", "create", "bob", "--generate")
    assert refused.code != 0, refused
    return f"broker {old_broker} runs a version" in refused.stderr


def test_a_rolling_upgrade_and_downgrade_loses_and_duplicates_nothing(
    cluster: MixedCluster,
) -> None:
    """Under load; groups resume, transactions stay whole, and every broker serves every client."""
    servers = cluster.servers
    for topic in ("orders", "ledger"):
        cluster.cli.ok("topic", "create", topic, "-p", str(PARTITIONS))
    load = SteadyLoad(servers, "orders", PARTITIONS)
    transactions = Transactions(servers, "ledger")
    classic = Group(servers, "classic", "orders")
    modern = Group(servers, "modern", "orders", **{"group.protocol": "consumer"})
    work = (transactions, classic, modern)

    def all_proceed() -> None:
        before = [load.acked, transactions.committed, classic.records, modern.records]
        wait_for(
            lambda: (
                all(
                    now > was + 5
                    for now, was in zip(
                        [load.acked, transactions.committed, classic.records, modern.records],
                        before,
                        strict=True,
                    )
                )
                or transactions.error
            ),
            "all clients go on",
            deadline_s=DEADLINE_S,
        )
        assert transactions.error is None

    with load, ExitStack() as stack:
        for each in work:
            stack.enter_context(each)
        all_proceed()
        for step, code in (("up", None), ("down", cluster.old)):
            last = cluster.controller()
            for number, id_ in enumerate(sorted(IDS, key=lambda id_: id_ == last)):
                cluster.replace(id_, code)
                all_proceed()
                if number == 0:  # one version in the controller, both in the followers
                    cluster.use_each_broker(step)
                if (step, number) == ("down", 0):
                    wait_for(
                        partial(_refuses_a_user, cluster, id_),
                        "a broker of this version forwards the request, and it is refused",
                    )
            if step == "up":  # every broker of 0.1.0 could read what is left
                cluster.cli.ok("user", "create", "alice", "--generate")
                cluster.cli.ok("user", "delete", "alice", "--execute")
    load.check(servers)
    transactions.check(servers)
    for group in (classic, modern):
        assert group.gaps == []
        assert group.committed() == group.next


def test_a_single_node_is_downgraded_and_upgraded_again(tmp_path: Path) -> None:
    """0.1.0 opens what this version wrote, with users and ACLs, which it ignores and keeps."""
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
    broker = BrokerProcess(tmp_path / "node", settings=settings)
    broker.start()
    cli = Cli(broker.bootstrap_servers, tmp_path)
    try:
        cli.ok("topic", "create", "orders", "-p", "1", "-c", "retention.ms=1000000000")
        cli.ok("produce", "orders", stdin="one\ntwo\n")
        cli.ok("consume", "orders", "-g", "billing", "-c", "1", "-o", "beginning")
        cli.ok("user", "create", "alice", "--generate")
        assert broker.stop() == 0
        broker.code = unpack("0.1.0", "code", tmp_path / "code")
        broker.start()
        cli.ok("produce", "orders", stdin="three\n")
        assert cli.ok("consume", "orders", "-g", "billing", "-c", "1", "-f", "%v") == "two"
        assert "1000000000" in cli.ok("topic", "describe", "orders")
        assert broker.stop() == 0
        broker.code = None
        broker.start()
        assert cli.ok("consume", "orders", "-e", "-o", "beginning") == "one\ntwo\nthree\n"
        assert cli.ok("consume", "orders", "-g", "billing", "-c", "1", "-f", "%v") == "three"
        assert "alice" in cli.ok("user", "list")
    finally:
        broker.kill()
