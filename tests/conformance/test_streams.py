"""Kafka Streams with exactly_once_v2: counts are exact after an instance is killed."""

import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from support.clients.programs import (
    BUILD_TIMEOUT_S,
    STREAMS_DEADLINE_S,
    StreamsInstance,
)
from support.waiting import wait_for
from support.wire.connection import Wire
from support.wire.topics import create_topic

PARTITIONS = 2
WORDS = ["a", "commit", "is", "a", "promise", "kept", "log", "the", "log", "the", "log"]
LINES = 300  # before the kill, and again after it
pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S + 2 * STREAMS_DEADLINE_S)


Start = Callable[[], StreamsInstance]


@pytest.fixture
def start(streams_classes: Path, bootstrap: str, name: str, tmp_path: Path) -> Iterator[Start]:
    with Wire(bootstrap) as wire:
        for topic in (f"{name}-lines", f"{name}-counts"):
            create_topic(wire, topic, PARTITIONS)
    with ExitStack() as started:
        numbers = iter(range(10))

        def make() -> StreamsInstance:
            home = tmp_path / f"instance-{next(numbers)}"
            arguments = [bootstrap, name, f"{name}-lines", f"{name}-counts", str(home)]
            instance = StreamsInstance(streams_classes, home, arguments)
            started.callback(instance.end)
            return instance

        yield make


def write_lines(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(LINES):
        producer.produce(topic, " ".join(WORDS).encode(), partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(STREAMS_DEADLINE_S) == 0


@pytest.fixture
def counts(bootstrap: str, name: str) -> Iterator[Callable[[], dict[str, list[int]]]]:
    """The committed counts."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
    )
    found: defaultdict[str, list[int]] = defaultdict(list)

    def read() -> dict[str, list[int]]:
        if not consumer.assignment():
            places = [TopicPartition(f"{name}-counts", index, 0) for index in range(PARTITIONS)]
            consumer.assign(places)
        for message in consumer.consume(1000, 0.5):
            assert not message.error(), message.error()
            found[message.key().decode()].append(int(message.value()))
        return found

    yield read
    consumer.close()


def test_a_word_count_is_exact_after_an_instance_is_killed(
    start: Start, bootstrap: str, name: str, counts: Callable[[], dict[str, list[int]]]
) -> None:
    # Invariant: a word that came n times has the counts 1 to n, in order, each of them once.
    stays, dies = start(), start()
    for instance in (stays, dies):
        instance.wait_until_it_runs()
    write_lines(bootstrap, f"{name}-lines")
    # In the middle of its work: some is counted, and a transaction is under way.
    wait_for(counts, "something is counted", deadline_s=STREAMS_DEADLINE_S)
    dies.end()
    write_lines(bootstrap, f"{name}-lines")

    total = {word: times * 2 * LINES for word, times in Counter(WORDS).items()}

    def complete() -> bool:
        seen = counts()
        return {word: max(numbers) for word, numbers in seen.items()} == total

    wait_for(complete, "every word is counted", deadline_s=STREAMS_DEADLINE_S)
    stays.end(signal.SIGTERM)
    assert counts() == {word: list(range(1, count + 1)) for word, count in total.items()}
