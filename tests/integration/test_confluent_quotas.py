"""confluent-kafka's producer and consumer are slowed down to their quotas and lose nothing."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, ThrottleEvent, TopicPartition

from headrace.testing import Broker
from support.wire.connection import Wire
from support.wire.quotas import set_quota
from support.wire.topics import create_topic

TIMEOUT_S = 20.0
TOPIC = "limited"
RECORDS = [b"%d" % number + b"v" * 5_000 for number in range(40)]
SIZE = sum(map(len, RECORDS))
RATE = SIZE / 1.2
"""Over the one complete window of a second, 20 percent more than the quota take 0.2 s more."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"quota.window.num": 2}) as broker:
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


def test_a_producer_and_a_consumer_are_throttled_to_their_rates(broker: Broker, wire: Wire) -> None:
    create_topic(wire, TOPIC)
    limits = {"producer_byte_rate": float(int(RATE)), "consumer_byte_rate": float(int(RATE))}
    set_quota(wire, [("user", "ANONYMOUS"), ("client-id", "limited")], **limits)
    throttled_s: list[float] = []

    def note(event: ThrottleEvent) -> None:
        throttled_s.append(event.throttle_time)

    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "client.id": "limited",
        "throttle_cb": note,
    }
    producer = Producer({**config, "linger.ms": 5, "batch.size": 20_000})
    began_s = time.monotonic()
    for value in RECORDS:
        producer.produce(TOPIC, value)
    assert producer.flush(TIMEOUT_S) == 0
    assert time.monotonic() - began_s >= 0.15
    assert max(throttled_s, default=0) > 0

    throttled_s.clear()
    consumer = Consumer({**config, "group.id": "none", "max.partition.fetch.bytes": 60_000})
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    began_s = time.monotonic()
    values: list[bytes] = []
    while len(values) < len(RECORDS) and time.monotonic() - began_s < TIMEOUT_S:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(bytes(message.value() or b""))
    elapsed_s = time.monotonic() - began_s
    consumer.close()
    assert values == RECORDS
    assert elapsed_s >= 0.15
    assert max(throttled_s, default=0) > 0
