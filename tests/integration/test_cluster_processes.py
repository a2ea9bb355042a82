"""Three broker processes and three ZooKeeper servers recover from crashes.

ZooKeeper's sessions last much longer than any test waits, so whatever happens sooner is not due to
their end.
"""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kazoo.client import KazooClient

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from headrace.zookeeper_server import ZooKeeperEnsemble
from support.brokers.processes import BrokerProcess
from support.waiting import wait_for
from support.wire.connection import ConnectionEnded, Wire

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("java") is None, reason="ZooKeeper needs Java"),
]

SESSION_S = 40.0
SOON_S = 8.0
"""A crash is known after some 20 ms, or later on a busy machine; far below the session anyway."""
DEADLINE_S = 60.0
CHROOT = "/headrace-test"


class Processes:
    """The cluster, from outside."""

    def __init__(self, zookeeper: ZooKeeperEnsemble, home: Path) -> None:
        self.zookeeper = zookeeper
        settings = {
            "zookeeper.connect": zookeeper.address + CHROOT,
            "zookeeper.session.timeout.ms": int(SESSION_S * 1000),
            "auto.leader.rebalance.enable": "false",
            "min.insync.replicas": 2,
            "default.replication.factor": 3,
            "headrace.log.level": "INFO",
            "headrace.stop.timeout.ms": 4000,  # a stop without a controller takes half of it
        }
        self.brokers = {
            id_: BrokerProcess(home / str(id_), settings=settings | {"broker.id": id_})
            for id_ in (1, 2, 3)
        }

    @property
    def servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    @property
    def running(self) -> list[int]:
        return [id_ for id_, broker in self.brokers.items() if broker.running]

    def metadata(self, at: int, topic: str | None = None) -> MetadataResponse | None:
        """The metadata of one broker; None if it does not respond."""
        asked = None if topic is None else [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        try:
            with Wire(self.brokers[at].bootstrap_servers) as wire:
                return wire.call(request, MetadataResponse)
        except (OSError, ConnectionEnded):
            return None

    def partition(self, at: int, topic: str) -> MetadataResponsePartition | None:
        answer = self.metadata(at, topic)
        if answer is None or not answer.topics[0].partitions:
            return None
        return answer.topics[0].partitions[0]

    def controller(self) -> int:
        at = self.running[0]
        answer = self.metadata(at)
        return -1 if answer is None else answer.controller_id

    def create(self, topic: str, partitions: int = 1) -> None:
        new = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=3,
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        with Wire(self.brokers[self.running[0]].bootstrap_servers, timeout_s=DEADLINE_S) as wire:
            answer = wire.call(CreateTopicsRequest(topics=[new]), CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message

    def mark_logs(self) -> None:
        for broker in self.brokers.values():
            broker.mark_log()

    def await_line(self, id_: int, *parts: str) -> str:
        """The first line since the mark that contains these parts, in the log of one broker."""
        broker = self.brokers[id_]
        wait_for(
            lambda: broker.lines_since_mark(*parts),
            f"broker {id_} logs {' '.join(parts)}",
            deadline_s=DEADLINE_S,
        )
        return broker.lines_since_mark(*parts)[0]

    def heal(self) -> None:
        """All brokers run, and all replicas are in sync."""
        for broker in self.brokers.values():
            if not broker.running:
                broker.start()
        wait_for(self._is_whole, "everything is in sync", deadline_s=DEADLINE_S)

    def _is_whole(self) -> bool:
        for id_ in self.brokers:
            answer = self.metadata(id_)
            if answer is None or len(answer.brokers) != len(self.brokers):
                return False
            for topic in answer.topics:
                for partition in topic.partitions:
                    if len(partition.isr_nodes) != len(partition.replica_nodes):
                        return False
        return True


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    home = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperEnsemble(home / "zookeeper"))
        made = Processes(zookeeper, home)
        for broker in made.brokers.values():
            stack.callback(broker.kill)
            broker.start()
        yield made


@pytest.fixture
def whole(cluster: Processes) -> Processes:
    cluster.heal()
    return cluster


def produced(servers: str, topic: str, values: list[bytes]) -> None:
    """Returns when all in-sync replicas have them."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=0, callback=lambda e, _: e and failures.append(e))
    assert producer.flush(DEADLINE_S) == 0
    assert not failures


def consumed(servers: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    give_up = time.monotonic() + DEADLINE_S
    while len(values) < count and time.monotonic() < give_up:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            values.append(value)
    consumer.close()
    return values


def leader_of(cluster: Processes, topic: str) -> int:
    found = cluster.partition(cluster.running[0], topic)
    assert found is not None
    return found.leader_id


@pytest.mark.parametrize(
    ("name", "leads", "controls"),
    [
        ("killed-leader", True, False),
        ("killed-controller", False, True),
        ("killed-both", True, True),
    ],
)
def test_a_killed_broker_is_replaced_long_before_its_session_ends(
    whole: Processes, name: str, leads: bool, controls: bool
) -> None:
    controller = whole.controller()
    # Each of the three brokers leads two of the six partitions. The first match is watched.
    whole.create(name, 6)
    produced(whole.servers, name, [b"before"])
    answer = whole.metadata(whole.running[0], name)
    assert answer is not None
    led = {each.leader_id: each.partition_index for each in answer.topics[0].partitions}
    others = [id_ for id_ in whole.brokers if id_ != controller]
    victim = controller if controls else others[0]
    index = led[victim] if leads else led[next(id_ for id_ in led if id_ != victim)]
    whole.mark_logs()
    whole.brokers[victim].kill()
    killed_at = time.monotonic()

    def is_replaced() -> bool:
        for id_ in whole.running:
            told = whole.metadata(id_, name)
            if told is None or told.controller_id == victim:
                return False
            for partition in told.topics[0].partitions:
                if partition.leader_id in (victim, -1) or victim in partition.isr_nodes:
                    return False
        return True

    wait_for(is_replaced, "others have taken over", deadline_s=SOON_S)
    print(f"{name}: replaced after {time.monotonic() - killed_at:.3f} s (partition {index})")
    expect_lines_about_dead_broker(whole, victim, was_controller=controls)
    produced(whole.servers, name, [b"after"])
    assert consumed(whole.servers, name, 2) == [b"before", b"after"]


def expect_lines_about_dead_broker(
    cluster: Processes, victim: int, *, was_controller: bool
) -> None:
    """The log of each survivor names the dead broker, how that was noticed, and the elections."""
    for id_ in cluster.running:
        died = cluster.await_line(id_, "a broker left", f"broker={victim} ")
        assert died.startswith("WARN ")
        assert died.endswith('cause="its process died (fast failure detection)"')
        elections = cluster.await_line(id_, "leaders were elected", f'"broker {victim} left"')
        assert " without_leader=0 " in elections and "examples=" in elections
    if not was_controller:
        return
    new = cluster.controller()
    elected = cluster.await_line(new, "elected controller", f"previous={victim}")
    assert elected.startswith(f"INFO elected controller broker={new} ")
    (other,) = (id_ for id_ in cluster.running if id_ != new)
    cluster.await_line(other, "the cluster has a new controller", f"controller={new} ")


def test_a_stopping_broker_hands_over_leadership_first(whole: Processes) -> None:
    whole.create("handed-over")
    produced(whole.servers, "handed-over", [b"before"])
    victim = leader_of(whole, "handed-over")
    whole.mark_logs()
    assert whole.brokers[victim].stop() == 0
    assert whole.brokers[victim].lines_since_mark("INFO broker stopped", f"broker={victim} ")
    at = whole.running[0]
    for id_ in whole.running:
        whole.await_line(id_, "leaders were elected", f'"controlled shutdown of broker {victim}"')
        left = whole.await_line(id_, "a broker left", f"broker={victim} ")
        assert left.startswith("INFO ") and left.endswith('cause="controlled shutdown"')
    found = whole.partition(at, "handed-over")
    assert found is not None
    assert found.leader_id not in (victim, -1)
    produced(whole.servers, "handed-over", [b"after"])
    assert consumed(whole.servers, "handed-over", 2) == [b"before", b"after"]


def test_a_broker_that_restarts_at_once_replaces_its_registration(whole: Processes) -> None:
    # Its old registration still exists; the data directory proves that it owns it.
    victim = whole.running[0]
    whole.brokers[victim].kill()
    started_at = time.monotonic()
    whole.brokers[victim].start()
    assert time.monotonic() - started_at < SESSION_S
    whole.heal()


def test_zookeeper_shows_kafkas_znodes(whole: Processes) -> None:
    whole.create("shown")
    client = KazooClient(hosts=whole.zookeeper.address + CHROOT)
    client.start(timeout=DEADLINE_S)
    try:
        assert sorted(client.get_children("/brokers/ids")) == ["1", "2", "3"]
        assert "shown" in client.get_children("/brokers/topics")
        assert b'"leader"' in client.get("/brokers/topics/shown/partitions/0/state")[0]
        assert client.exists("/controller") is not None
    finally:
        client.stop()
        client.close()


def test_a_zookeeper_leader_change_does_not_affect_brokers(whole: Processes) -> None:
    controller = whole.controller()
    server = whole.zookeeper.leader()
    assert server is not None
    server.kill()
    try:
        whole.create("zookeeper-failover")
        produced(whole.servers, "zookeeper-failover", [b"served"])
        assert whole.controller() == controller
    finally:
        server.start()


def test_leaders_serve_while_zookeeper_is_down(whole: Processes) -> None:
    whole.create("zookeeper-away")
    produced(whole.servers, "zookeeper-away", [b"before"])
    whole.mark_logs()
    for server in whole.zookeeper.servers:
        server.kill()
    try:
        for id_ in whole.brokers:
            lost = whole.await_line(id_, "the connection to ZooKeeper is lost")
            assert lost.startswith(
                "WARN the connection to ZooKeeper is lost: leaders serve on; nothing can be "
                f"changed zookeeper={whole.zookeeper.address}{CHROOT} session_timeout_s="
            )
        for number in range(5):
            produced(whole.servers, "zookeeper-away", [b"%d" % number])
        assert len(consumed(whole.servers, "zookeeper-away", 6)) == 6
    finally:
        whole.zookeeper.start()
    whole.create("zookeeper-is-back")
    for id_ in whole.brokers:
        back = whole.await_line(id_, "INFO connected to ZooKeeper again")
        assert int(back.rpartition("ms=")[2]) > 0
    produced(whole.servers, "zookeeper-is-back", [b"served"])


def test_a_cluster_continues_with_a_backup_of_zookeeper_by_the_steps_of_the_guide(
    whole: Processes, tmp_path: Path
) -> None:
    """docs/guide/backup-and-restore.md: the ensemble loses its data; only an older copy is left."""
    servers = whole.zookeeper.servers
    whole.create("in-backup")
    produced(whole.servers, "in-backup", [b"1"])
    shutil.copytree(servers[0].data_dir / "version-2", tmp_path / "version-2")
    produced(whole.servers, "in-backup", [b"2"])
    whole.create("after-backup")
    produced(whole.servers, "after-backup", [b"a", b"b"])

    whole.zookeeper.stop()
    for server in servers:
        shutil.rmtree(server.data_dir / "version-2")
    whole.zookeeper.start()  # empty: leaders serve on, and nobody registers
    produced(whole.servers, "in-backup", [b"3"])
    client = KazooClient(hosts=whole.zookeeper.address)
    client.start(timeout=DEADLINE_S)
    assert not client.exists(f"{CHROOT}/brokers/ids/1")
    client.stop()
    client.close()

    whole.zookeeper.stop()
    for server in servers:
        shutil.rmtree(server.data_dir / "version-2")
        shutil.copytree(tmp_path / "version-2", server.data_dir / "version-2")
    whole.zookeeper.start()
    produced(whole.servers, "in-backup", [b"4"])
    for broker in whole.brokers.values():
        os.kill(broker.pid, signal.SIGTERM)
    for broker in whole.brokers.values():
        broker.wait()
    for broker in whole.brokers.values():
        (broker.data / "metadata-version").write_text("any\n")
        broker.launch()
    for broker in whole.brokers.values():
        broker.wait_until_serving()
    whole.heal()
    assert consumed(whole.servers, "in-backup", 4) == [b"1", b"2", b"3", b"4"]

    # A topic that the backup lacks: its records are read from a stray log, on a node of its own.
    strays = [next(broker.data.glob("after-backup-0.*-stray")) for broker in whole.brokers.values()]
    assert len(strays) == 3
    shutil.copytree(strays[0], tmp_path / "rescue" / "data" / "after-backup-0")
    with BrokerProcess(tmp_path / "rescue") as rescue:
        assert consumed(rescue.bootstrap_servers, "after-backup", 2) == [b"a", b"b"]

    # Without any backup of ZooKeeper, a broker's directory still serves its topics on one node.
    copy = shutil.copytree(whole.brokers[1].data, tmp_path / "alone" / "data")
    for name in ("meta.properties", "metadata-version"):
        (copy / name).unlink()
    with BrokerProcess(tmp_path / "alone") as alone:
        expected = [b"1", b"2", b"3", b"4"]
        assert consumed(alone.bootstrap_servers, "in-backup", 4) == expected


def test_a_broker_paused_past_its_session_is_replaced_and_returns(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperEnsemble(tmp_path / "zookeeper", 1))
        cluster = Processes(zookeeper, tmp_path)
        for broker in cluster.brokers.values():
            broker._settings["zookeeper.session.timeout.ms"] = 4000
            stack.callback(broker.kill)
            broker.start()
        cluster.heal()
        cluster.create("paused")
        produced(cluster.servers, "paused", [b"before"])
        victim = leader_of(cluster, "paused")
        cluster.mark_logs()
        os.kill(cluster.brokers[victim].pid, signal.SIGSTOP)
        try:
            at = next(id_ for id_ in cluster.brokers if id_ != victim)
            wait_for(
                lambda: (found := cluster.partition(at, "paused")) and found.leader_id != victim,
                "its session ends and another leads",
                deadline_s=DEADLINE_S,
            )
            left = cluster.await_line(at, "WARN a broker left", f"broker={victim} ")
            assert left.endswith('cause="its ZooKeeper session ended"')
            produced(cluster.servers, "paused", [b"meanwhile"])
        finally:
            os.kill(cluster.brokers[victim].pid, signal.SIGCONT)
        cluster.heal()
        cluster.await_line(victim, "WARN this broker lost its registration and registers again")
        cluster.await_line(at, "INFO a broker joined", f"broker={victim} ")
        assert consumed(cluster.servers, "paused", 2) == [b"before", b"meanwhile"]
