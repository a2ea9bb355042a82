"""librdkafka clients that record their events."""

from collections.abc import Callable, Sequence
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from support.waiting import wait_for

DEADLINE_S = 60.0
POLL_S = 0.02


class Sender:
    """A producer that records every delivery and every failure, in order."""

    def __init__(self, config: dict[str, object]) -> None:
        self.delivered: list[Message] = []
        self.failed: list[KafkaError] = []
        self.producer = Producer({"message.timeout.ms": DEADLINE_S * 1000, **config})

    def send(self, topic: str, *values: bytes, **options: object) -> None:
        for value in values:
            self.producer.produce(topic, value, on_delivery=self._reported, **options)

    def finish(self) -> None:
        """Waits for the result of every record; unlike `flush`, it does not speed it up."""

        def finished() -> bool:
            self.producer.poll(POLL_S)
            return len(self.producer) == 0

        wait_for(finished, "every record has been reported", deadline_s=DEADLINE_S)

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered.append(message)
        else:
            self.failed.append(error)


class Reader:
    """A consumer that records its messages and events."""

    def __init__(self, config: dict[str, object]) -> None:
        self.read: list[Message] = []
        self.errors: list[KafkaError] = []
        self.assigned = 0
        self.revoked: list[set[tuple[str, int]]] = []
        self.closed = False
        self.consumer = Consumer(
            {
                "session.timeout.ms": 30_000,
                "topic.metadata.refresh.interval.ms": 500,
                "fetch.wait.max.ms": 50,
                **config,
            }
        )

    def subscribe(self, *topics: str) -> None:
        self.consumer.subscribe(
            list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def poll(self) -> None:
        message = self.consumer.poll(POLL_S)
        if message is None:
            return
        if message.error():
            self.errors.append(message.error())
        else:
            self.read.append(message)

    @property
    def values(self) -> list[bytes | None]:
        return [message.value() for message in self.read]

    @property
    def owned(self) -> set[tuple[str, int]]:
        return {(one.topic, one.partition) for one in self.consumer.assignment()}

    def until(self, condition: Callable[[], object], what: str) -> None:
        until([self], condition, what)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned += 1

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked.append({(one.topic, one.partition) for one in partitions})


class Polled(Protocol):
    """A consumer that stores the messages that it has read."""

    read: list[Message]

    def poll(self) -> None: ...


def until(consumers: Sequence[Polled], condition: Callable[[], object], what: str) -> None:
    """Polls the consumers in turn until the condition is true."""

    def polled() -> bool:
        for consumer in consumers:
            consumer.poll()
        return bool(condition())

    wait_for(polled, what, deadline_s=DEADLINE_S)


def produce(bootstrap: str, topic: str, partitions: range, count: int) -> None:
    """Produces `count` messages to each partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        for partition in partitions:
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(DEADLINE_S) == 0


def places(*consumers: Polled) -> set[tuple[int, int]]:
    """(partition, offset) of all messages read; a rebalance may cause duplicates."""
    return {
        (message.partition() or 0, message.offset() or 0)
        for consumer in consumers
        for message in consumer.read
    }


def everything(partitions: int, count: int) -> set[tuple[int, int]]:
    """(partition, offset) of the first `count` messages of each partition."""
    return {(partition, offset) for partition in range(partitions) for offset in range(count)}


MakeSender = Callable[..., Sender]
MakeReader = Callable[..., Reader]
ReadAll = Callable[..., list[bytes | None]]
