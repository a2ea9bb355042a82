"""kill -9 under load: every acknowledged record is stored afterwards, once and in order.

An idempotent producer with acks=all sends without pause while the broker is killed at random
moments and started again on the same port and data. HEADRACE_KILLS sets how often (50 for a full
run), HEADRACE_KILL_SEED which moments.
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from support.brokers.processes import BrokerProcess
from support.waiting import wait_for
from support.wire.batches import fetch, fetch_request, records_of
from support.wire.connection import ConnectionEnded, Wire
from support.wire.topics import create_topic

KILLS = int(os.environ.get("HEADRACE_KILLS", "5"))
SEED = int(os.environ.get("HEADRACE_KILL_SEED", str(random.randrange(2**32))))
PARTITIONS = 3
MAX_QUIET_S = 0.8
"""The longest time between two kills; the shortest is none at all."""
MAX_WAITING = 5_000
SECONDS_PER_KILL = 15

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(60 + KILLS * SECONDS_PER_KILL),
    pytest.mark.skipif(
        bool(os.environ.get("HEADRACE_TEST_BOOTSTRAP")), reason="needs a broker that it may kill"
    ),
]


class Load(threading.Thread):
    """Produces numbered values to every partition until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name="load", daemon=True)
        self.topic = topic
        self.stopping = threading.Event()
        self.acknowledged: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]
        self.sent = [0] * PARTITIONS
        self.failures: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "batch.num.messages": 50,
                "message.timeout.ms": 300_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while not self.stopping.is_set():
            if len(self._producer) >= MAX_WAITING:
                self._producer.poll(0.01)
                continue
            for partition in range(PARTITIONS):
                number = self.sent[partition]
                self.sent[partition] += 1
                self._producer.produce(
                    self.topic,
                    b"%d" % number,
                    partition=partition,
                    on_delivery=self._delivered,
                )
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.acknowledged[partition][int(message.value() or b"")] = offset

    @property
    def acks(self) -> int:
        return sum(map(len, self.acknowledged))

    def await_ack(self, what: str) -> None:
        """Waits for one more acknowledgement."""
        before = self.acks
        wait_for(lambda: self.acks > before, what, deadline_s=60)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    # Small segments, so that kills meet rolls, indexes and snapshots too.
    settings = {"log.segment.bytes": 1_048_576}
    with BrokerProcess(tmp_path / "broker", settings=settings) as started:
        yield started


def test_every_acknowledged_record_is_stored_once_and_in_order(broker: BrokerProcess) -> None:
    generator = random.Random(SEED)
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "load", PARTITIONS)
    load = Load(broker.bootstrap_servers, "load")
    load.start()
    for _ in range(KILLS):
        load.await_ack("the load is acknowledged")
        time.sleep(generator.random() * MAX_QUIET_S)  # the random moment, not a wait
        broker.kill()
        broker.start()
    load.await_ack("the load goes on")
    load.stopping.set()
    load.join(90)
    assert not load.is_alive()
    assert not load.failures, f"seed {SEED}: {load.failures[:3]}"
    for partition in range(PARTITIONS):
        _check(broker, load, partition)
    assert load.acks == sum(load.sent) > 0


def test_every_acknowledged_topic_exists(broker: BrokerProcess) -> None:
    """Metadata is on the disk before it is acknowledged, ids and all; deletions too."""
    generator = random.Random(SEED)
    created: dict[str, bytes] = {}
    deleted: set[str] = set()
    for number in range(KILLS):
        killer = threading.Timer(generator.random() * MAX_QUIET_S / 4, broker.kill)
        with suppress(ConnectionEnded, OSError), Wire(broker.bootstrap_servers) as wire:
            killer.start()
            while True:
                _create_and_delete(wire, f"round-{number}-{len(created)}", created, deleted)
        killer.join()
        broker.start()
    with Wire(broker.bootstrap_servers) as wire:
        told = wire.call(MetadataRequest(topics=None), MetadataResponse, 12).topics
        found = {topic.name: topic.topic_id for topic in told}
        assert created, f"seed {SEED}: nothing was acknowledged"
        for name, topic_id in created.items():
            assert found.get(name) == topic_id, f"seed {SEED}: {name}"
            assert fetch(wire, fetch_request(name, partition=1)).error_code == 0
        assert not deleted & set(found), f"seed {SEED}: a deleted topic is back"


def _create_and_delete(wire: Wire, name: str, created: dict[str, bytes], deleted: set[str]) -> None:
    """Creates one topic to keep and one that is deleted; records the acknowledgements."""
    doomed = f"doomed-{name}"
    topics = [
        CreatableTopic(name=each, num_partitions=2, replication_factor=1) for each in (name, doomed)
    ]
    made = wire.call(CreateTopicsRequest(topics=topics, timeout_ms=5000), CreateTopicsResponse)
    for result in made.topics:
        if result.name == name and not result.error_code:
            created[name] = result.topic_id
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=doomed)], timeout_ms=5000)
    (gone,) = wire.call(request, DeleteTopicsResponse).responses
    if not gone.error_code:
        deleted.add(doomed)


def _check(broker: BrokerProcess, load: Load, partition: int) -> None:
    """Compares a consumer's records with the acknowledged ones."""
    expected = load.sent[partition]
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(load.topic, partition, 0)])
    found: list[tuple[int, int]] = []

    def all_read() -> bool:
        for message in consumer.consume(10_000, timeout=0.2):
            assert message.error() is None
            offset = message.offset()
            assert offset is not None
            found.append((int(message.value() or b""), offset))
        return len(found) >= expected

    wait_for(all_read, f"seed {SEED}: {expected} records in partition {partition}", deadline_s=60)
    with Wire(broker.bootstrap_servers) as wire:
        end = fetch(wire, fetch_request(load.topic, found[-1][1], partition=partition))
    assert end.high_watermark == expected, f"seed {SEED}: more records than were sent"
    assert records_of(end.records)
    assert [value for value, _ in found] == list(range(expected)), f"seed {SEED}"
    acknowledged = load.acknowledged[partition]
    wrong = [pair for pair in found if acknowledged.get(pair[0], pair[1]) != pair[1]]
    assert not wrong, f"seed {SEED}: acknowledged at another offset: {wrong[:5]}"
    consumer.close()
