"""kill -9 under consumer groups: nothing is skipped, and no commit is lost or moves back.

A producer sends without pause; two groups read it, one of each protocol, with two processes each
that commit by hand. The broker is killed at random moments and started again; in each group one
process is killed and replaced, and another one is stopped for longer than its session and then
resumes. HEADRACE_GROUP_KILLS sets how often the broker is killed, HEADRACE_KILL_SEED when.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from support.brokers.processes import BrokerProcess
from support.groups import churn_worker
from support.waiting import wait_for
from support.wire.connection import ConnectionEnded, Wire
from support.wire.topics import create_topic

KILLS = int(os.environ.get("HEADRACE_GROUP_KILLS", "3"))
SEED = int(os.environ.get("HEADRACE_KILL_SEED", str(random.randrange(2**32))))
TOPIC = "work"
PARTITIONS = 4
PROTOCOLS = ("classic", "consumer")
WORKERS = 2
SEND_EVERY_S = 0.02
MAX_QUIET_S = 1.0
DEADLINE_S = 90.0
FETCH_VERSION = 9
SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 200,
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
}
NOT_NOW = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400 + 60 * KILLS),
    pytest.mark.skipif(
        bool(os.environ.get("HEADRACE_TEST_BOOTSTRAP")), reason="needs a broker that it may kill"
    ),
]


class Work:
    """A topic that receives the requested number of records."""

    def __init__(self, bootstrap: str) -> None:
        self.failed: list[KafkaError] = []
        self.ends = [0] * PARTITIONS
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "message.timeout.ms": 300_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )

    def send(self) -> None:
        for partition in range(PARTITIONS):
            self._producer.produce(TOPIC, b"x", partition=partition, on_delivery=self._sent)
        self._producer.poll(0)

    def _sent(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.ends[partition] = max(self.ends[partition], offset + 1)

    def finish(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0
        assert not self.failed


class Group:
    """The processes of one group, their journals, and the highest offsets seen."""

    def __init__(self, protocol: str, bootstrap: str, home: Path) -> None:
        self.name = self.protocol = protocol
        self.processes: list[subprocess.Popen[bytes]] = []
        self.committed = [-1] * PARTITIONS
        self._acknowledged = [-1] * PARTITIONS
        self._processed: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self._prefix = [0] * PARTITIONS
        self._bootstrap = bootstrap
        self._home = home
        self._read: dict[Path, int] = {}

    def start(self) -> None:
        journal = self._home / f"{self.name}-{len(self._read)}.journal"
        journal.touch()
        self._read[journal] = 0
        script = str(churn_worker.__file__)
        arguments = [self._bootstrap, self.name, TOPIC, self.protocol, str(journal)]
        self.processes.append(subprocess.Popen([sys.executable, script, *arguments]))

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        self.processes.remove(process)
        process.kill()
        process.wait(DEADLINE_S)

    def end(self) -> None:
        for process in list(self.processes):
            self.kill(process)

    def check(self, wire: Wire) -> None:
        """The committed offset is not below an acknowledged or seen offset, and not
        above the processed records."""
        self.read_journals()
        acknowledged = list(self._acknowledged)
        committed = self._fetch(wire)
        if committed is None:
            return
        self.read_journals()
        for partition, offset in enumerate(committed):
            what = f"{self.name}, partition {partition}, seed {SEED}: {offset} is committed"
            assert offset >= self.committed[partition], f"{what}, it was {self.committed}"
            assert offset >= acknowledged[partition], f"{what}, acknowledged was {acknowledged}"
            assert offset <= self.processed(partition), f"{what}, which was not processed"
        self.committed = committed

    def _fetch(self, wire: Wire) -> list[int] | None:
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(PARTITIONS)))]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.name, topics=topics)]
        )
        (group,) = wire.call(request, OffsetFetchResponse, FETCH_VERSION).groups
        if group.error_code:
            assert group.error_code in NOT_NOW
            return None
        return [one.committed_offset for one in group.topics[0].partitions]

    def read_journals(self) -> None:
        for journal, position in self._read.items():
            with journal.open("rb") as opened:
                opened.seek(position)
                lines = opened.read().splitlines(keepends=True)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read[journal] += len(line)
                what, partition, offset = line.split()
                if what == b"R":
                    self._processed[int(partition)].add(int(offset))
                else:
                    before = self._acknowledged[int(partition)]
                    self._acknowledged[int(partition)] = max(before, int(offset))

    def processed(self, partition: int) -> int:
        """Every record before this one was processed."""
        while self._prefix[partition] in self._processed[partition]:
            self._prefix[partition] += 1
        return self._prefix[partition]

    @property
    def progress(self) -> int:
        return sum(map(self.processed, range(PARTITIONS)))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", settings=SETTINGS) as started:
        yield started


@pytest.fixture
def groups(broker: BrokerProcess, tmp_path: Path) -> Iterator[list[Group]]:
    with ExitStack() as ends:
        made = [Group(one, broker.bootstrap_servers, tmp_path) for one in PROTOCOLS]
        for group in made:
            ends.callback(group.end)
        yield made


def test_groups_skip_nothing_and_keep_their_commits(
    broker: BrokerProcess, groups: list[Group]
) -> None:
    generator = random.Random(SEED)
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, TOPIC, PARTITIONS)
    work = Work(broker.bootstrap_servers)
    for group in groups:
        for _ in range(WORKERS):
            group.start()
    _all_make_progress(broker, work, groups)
    for kill in range(KILLS):
        _go_on(broker, work, groups, generator.random() * MAX_QUIET_S)
        if kill == 0:
            for group in groups:
                group.processes[0].send_signal(signal.SIGSTOP)
        if kill == KILLS // 2:
            for group in groups:
                group.kill(group.processes[-1])
                group.start()
        broker.kill()
        broker.start()
    _all_make_progress(broker, work, groups)
    for group in groups:
        group.processes[0].send_signal(signal.SIGCONT)
    _all_make_progress(broker, work, groups)
    work.finish()
    _wait_until_done(broker, work, groups)


def _go_on(broker: BrokerProcess, work: Work, groups: list[Group], seconds: float) -> None:
    """Sends and checks for as long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        work.send()
        _check(broker, groups)
        time.sleep(SEND_EVERY_S)


def _check(broker: BrokerProcess, groups: list[Group]) -> None:
    with suppress(OSError, ConnectionEnded), Wire(broker.bootstrap_servers) as wire:
        for group in groups:
            group.check(wire)


def _all_make_progress(broker: BrokerProcess, work: Work, groups: list[Group]) -> None:
    """Waits until every group has processed and committed more records."""
    before = [(group.progress, sum(group.committed)) for group in groups]

    def moved() -> bool:
        _go_on(broker, work, groups, SEND_EVERY_S)
        return all(
            group.progress > processed and sum(group.committed) > committed
            for group, (processed, committed) in zip(groups, before, strict=True)
        )

    wait_for(moved, f"all groups go on, seed {SEED}", deadline_s=DEADLINE_S)


def _wait_until_done(broker: BrokerProcess, work: Work, groups: list[Group]) -> None:
    def done() -> bool:
        _check(broker, groups)
        return all(group.committed == work.ends for group in groups)

    wait_for(done, f"everything is processed and committed, seed {SEED}", deadline_s=DEADLINE_S)
    for group in groups:
        assert [group.processed(one) for one in range(PARTITIONS)] == work.ends
