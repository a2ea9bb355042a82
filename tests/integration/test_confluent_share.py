"""confluent-kafka's ShareConsumer (librdkafka): queues as applications see them."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer

from support.wire.connection import Wire
from support.wire.share_member import set_group_config
from support.wire.topics import MakeTopic

DEADLINE_S = 60.0
POLL_S = 0.2


class MakeConsumer(Protocol):
    """A share consumer of the group, subscribed to the topic; closed with the test."""

    def __call__(self, group: str, topic: str, *, explicit: bool = False) -> ShareConsumer: ...


@pytest.fixture
def make_consumer(bootstrap: str) -> Iterator[MakeConsumer]:
    with ExitStack() as opened:

        def make(group: str, topic: str, *, explicit: bool = False) -> ShareConsumer:
            consumer = ShareConsumer(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": group,
                    "share.acknowledgement.mode": "explicit" if explicit else "implicit",
                    "log_level": 0,
                }
            )
            opened.callback(consumer.close)
            consumer.subscribe([topic])
            return consumer

        yield make


@pytest.fixture
def group(wire: Wire, new_name: Callable[[], str]) -> str:
    name = new_name()
    set_group_config(wire, name, share_auto_offset_reset="earliest")
    return name


def fill(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number).encode())
    assert producer.flush(DEADLINE_S) == 0


def poll_until(
    consumers: list[ShareConsumer],
    take: Callable[[ShareConsumer, Message], None],
    done: Callable[[], bool],
) -> None:
    """Polls the consumers in turn and yields their records until there are enough."""
    give_up = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < give_up, "not enough records came"
        for consumer in consumers:
            for message in consumer.poll(POLL_S):
                assert message.error() is None
                take(consumer, message)


def test_two_consumers_share_a_topic_and_each_record_is_handled_once(
    bootstrap: str, make_topic: MakeTopic, make_consumer: MakeConsumer, group: str
) -> None:
    topic = make_topic(2)
    fill(bootstrap, topic, 500)
    seen: Counter[bytes | None] = Counter()
    consumers = [make_consumer(group, topic) for _ in range(2)]
    poll_until(
        consumers, lambda _, message: seen.update([message.value()]), lambda: len(seen) == 500
    )
    assert set(seen.values()) == {1}


def test_released_records_are_redelivered_and_rejected_ones_are_not(
    bootstrap: str, topic: str, make_consumer: MakeConsumer, group: str
) -> None:
    fill(bootstrap, topic, 10)
    consumer = make_consumer(group, topic, explicit=True)
    seen: Counter[bytes | None] = Counter()

    def take(consumer: ShareConsumer, message: Message) -> None:
        value = message.value()
        seen[value] += 1
        if value == b"3" and seen[value] == 1:
            kind = AcknowledgeType.RELEASE
        elif value == b"5":
            kind = AcknowledgeType.REJECT
        else:
            kind = AcknowledgeType.ACCEPT
        consumer.acknowledge(message, kind)

    poll_until([consumer], take, lambda: len(seen) == 10 and seen[b"3"] == 2)
    consumer.commit_sync(DEADLINE_S)
    assert {value: count for value, count in seen.items() if count > 1} == {b"3": 2}


def test_a_read_committed_group_reads_only_committed_records(
    bootstrap: str, wire: Wire, topic: str, make_consumer: MakeConsumer, group: str
) -> None:
    set_group_config(wire, group, share_isolation_level="read_committed")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group})
    producer.init_transactions(DEADLINE_S)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, f"{number}".encode())
        if number % 2:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    fill(bootstrap, topic, 1)
    seen: list[bytes | None] = []
    consumer = make_consumer(group, topic)
    poll_until([consumer], lambda _, message: seen.append(message.value()), lambda: len(seen) >= 4)
    assert sorted(value or b"" for value in seen) == [b"0", b"0", b"2", b"4"]
