"""Shared fixtures: one broker, and clients that are closed with the test.

HEADRACE_TEST_BOOTSTRAP runs them against another Kafka, whose group.initial.rebalance.delay.ms
should be 0, and whose log.retention.check.interval.ms and log.initial.task.delay.ms should be
short.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from support.brokers.bootstrap import AT_ONCE, serving
from support.clients.librdkafka import MakeReader, MakeSender, ReadAll, Reader, Sender
from support.wire.faulty_proxy import Link

SETTINGS = {
    **AT_ONCE,
    "log.retention.check.interval.ms": "200",
}


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with serving(SETTINGS) as servers:
        yield servers


@pytest.fixture
def link(bootstrap: str) -> Iterator[Link]:
    with Link(bootstrap) as made:
        yield made


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def sender(bootstrap: str) -> MakeSender:
    def make(through: str = bootstrap, **config: object) -> Sender:
        return Sender({"bootstrap.servers": through, **config})

    return make


@pytest.fixture
def group(new_name: Callable[[], str]) -> str:
    return new_name()


@pytest.fixture
def reader(bootstrap: str, group: str) -> Iterator[MakeReader]:
    """Consumers of the test's group, closed with the test."""
    with ExitStack() as opened:

        def make(**config: object) -> Reader:
            made = Reader({"bootstrap.servers": bootstrap, "group.id": group, **config})
            opened.callback(made.close)
            return made

        yield make


@pytest.fixture
def read_all(reader: MakeReader) -> ReadAll:
    """Everything that partition 0 of a topic holds, without a group."""

    def read(topic: str, isolation: str = "read_committed") -> list[bytes | None]:
        one = reader(**{"enable.partition.eof": True, "isolation.level": isolation})
        one.consumer.assign([TopicPartition(topic, 0, 0)])
        one.until(lambda: one.errors, "the end of the log")
        assert [error.code() for error in one.errors] == [KafkaError._PARTITION_EOF]
        one.close()
        return one.values

    return read
