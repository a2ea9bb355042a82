"""confluent-kafka (librdkafka): producing and consuming against one node, without a group."""

import zlib
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from headrace.records.partitioner import partition_for_key
from support.waiting import wait_for
from support.wire.batches import now_ms
from support.wire.topics import MakeTopic

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
FLUSH_S = 20.0


class Deliveries:
    """Collects the producer's delivery reports."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.errors: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.messages.append(message)
        else:
            self.errors.append(error)


@pytest.fixture
def deliveries() -> Deliveries:
    return Deliveries()


@pytest.fixture
def consume(bootstrap: str) -> Iterator[Callable[..., list[Message]]]:
    opened: list[Consumer] = []

    def read(
        topic: str, count: int, partitions: Sequence[int] = (0,), **config: object
    ) -> list[Message]:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **config,
            }
        )
        opened.append(consumer)
        consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in partitions])
        found: list[Message] = []

        def enough() -> bool:
            for message in consumer.consume(count - len(found), timeout=0.2):
                if message.error():
                    raise KafkaException(message.error())
                found.append(message)
            return len(found) >= count

        wait_for(enough, f"{count} messages of {topic}")
        return found

    yield read
    for consumer in opened:
        consumer.close()


def producer(bootstrap: str, **config: object) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 15_000, **config})


@pytest.mark.parametrize("codec", CODECS)
def test_produced_records_are_consumed_with_every_codec(
    bootstrap: str,
    topic: str,
    codec: str,
    deliveries: Deliveries,
    consume: Callable[..., list[Message]],
) -> None:
    client = producer(bootstrap, **{"compression.type": codec, "linger.ms": 5})
    values = [f"value {number} ".encode() * 20 for number in range(500)]
    for value in values:
        client.produce(topic, value, on_delivery=deliveries)
    assert client.flush(FLUSH_S) == 0
    assert not deliveries.errors
    found = consume(topic, len(values))
    assert [message.value() for message in found] == values
    assert [message.offset() for message in found] == list(range(len(values)))


def test_keys_headers_and_timestamps_are_preserved(
    bootstrap: str, topic: str, consume: Callable[..., list[Message]]
) -> None:
    client = producer(bootstrap)
    headers = [("trace", b"\x00\xff"), ("empty", b""), ("null", None), ("trace", b"again")]
    client.produce(topic, b"v", key=b"k", headers=headers, timestamp=1_700_000_000_123)
    client.produce(topic, None, key=b"tombstone")
    client.produce(topic, b"", key=None)
    assert client.flush(FLUSH_S) == 0
    first, second, third = consume(topic, 3)
    assert (first.key(), first.value(), first.headers()) == (b"k", b"v", headers)
    assert first.timestamp() == (TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    assert (second.key(), second.value()) == (b"tombstone", None)
    assert (third.key(), third.value()) == (None, b"")


def test_log_append_time_is_the_brokers(
    bootstrap: str, make_topic: MakeTopic, consume: Callable[..., list[Message]]
) -> None:
    topic = make_topic(1, {"message.timestamp.type": "LogAppendTime"})
    before = now_ms()
    client = producer(bootstrap)
    client.produce(topic, b"v", timestamp=1000)
    assert client.flush(FLUSH_S) == 0
    (message,) = consume(topic, 1)
    kind, stamp = message.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before <= stamp <= now_ms()


def test_keys_map_to_the_same_partitions_as_in_java_clients(
    bootstrap: str, make_topic: MakeTopic, deliveries: Deliveries
) -> None:
    topic = make_topic(7)
    client = producer(bootstrap, partitioner="murmur2_random")
    keys = [f"key-{number}".encode() for number in range(100)]
    for key in keys:
        client.produce(topic, b"v", key=key, on_delivery=deliveries)
    assert client.flush(FLUSH_S) == 0
    landed = {message.key(): message.partition() for message in deliveries.messages}
    assert landed == {key: partition_for_key(key, 7) for key in keys}


def test_librdkafkas_default_partitioner_is_not_changed(
    bootstrap: str, make_topic: MakeTopic, deliveries: Deliveries
) -> None:
    topic = make_topic(5)
    client = producer(bootstrap)
    for number in range(50):
        client.produce(topic, b"v", key=b"%d" % number, on_delivery=deliveries)
    assert client.flush(FLUSH_S) == 0
    for message in deliveries.messages:
        key = message.key()
        assert key is not None
        assert message.partition() == zlib.crc32(key) % 5


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_delivers_records(
    bootstrap: str,
    topic: str,
    acks: str,
    deliveries: Deliveries,
    consume: Callable[..., list[Message]],
) -> None:
    client = producer(bootstrap, acks=acks)
    for number in range(100):
        client.produce(topic, b"%d" % number, on_delivery=deliveries)
    assert client.flush(FLUSH_S) == 0
    assert len(deliveries.messages) == 100
    assert [message.value() for message in consume(topic, 100)] == [b"%d" % n for n in range(100)]
    if acks != "0":
        assert [message.offset() for message in deliveries.messages] == list(range(100))


def test_an_idempotent_producer_keeps_order_over_many_requests(
    bootstrap: str, make_topic: MakeTopic, consume: Callable[..., list[Message]]
) -> None:
    topic = make_topic(3)
    client = producer(
        bootstrap, **{"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 7}
    )
    for number in range(3000):
        client.produce(topic, b"%d" % number, partition=number % 3)
        if number % 100 == 0:
            client.poll(0)
    assert client.flush(FLUSH_S) == 0
    found = consume(topic, 3000, (0, 1, 2))
    for partition in range(3):
        values = [int(m.value() or b"") for m in found if m.partition() == partition]
        assert values == list(range(partition, 3000, 3))


def test_a_message_below_the_limit_is_accepted_and_one_over_it_is_too_large(
    bootstrap: str, topic: str, deliveries: Deliveries, consume: Callable[..., list[Message]]
) -> None:
    client = producer(bootstrap, **{"message.max.bytes": 10_000_000})
    fits = b"x" * (1_048_588 - 100)
    client.produce(topic, fits, on_delivery=deliveries)
    client.produce(topic, b"x" * 1_100_000, on_delivery=deliveries)
    assert client.flush(FLUSH_S) == 0
    assert [error.code() for error in deliveries.errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    (message,) = consume(topic, 1)
    assert message.value() == fits


def test_a_topic_can_allow_large_messages(
    bootstrap: str, make_topic: MakeTopic, consume: Callable[..., list[Message]]
) -> None:
    topic = make_topic(1, {"max.message.bytes": 20_000_000})
    client = producer(bootstrap, **{"message.max.bytes": 16_000_000})
    large = bytes(range(256)) * 40_000
    client.produce(topic, large)
    assert client.flush(FLUSH_S) == 0
    (message,) = consume(topic, 1)
    assert message.value() == large


def test_reading_does_not_remove_records(
    bootstrap: str, topic: str, consume: Callable[..., list[Message]]
) -> None:
    client = producer(bootstrap)
    for number in range(10):
        client.produce(topic, b"%d" % number)
    assert client.flush(FLUSH_S) == 0
    first = [message.value() for message in consume(topic, 10)]
    assert [message.value() for message in consume(topic, 10)] == first


def test_a_consumer_sees_the_end_and_then_later_records(bootstrap: str, topic: str) -> None:
    client = producer(bootstrap)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    end = wait_for(lambda: consumer.poll(0.2), "the end of the partition")
    assert end.error().code() == KafkaError._PARTITION_EOF
    client.produce(topic, b"news")
    assert client.flush(FLUSH_S) == 0
    news = wait_for(lambda: consumer.poll(0.2), "the next message")
    assert news.value() == b"news"
    consumer.close()


def test_offsets_can_be_found_by_time(bootstrap: str, topic: str) -> None:
    client = producer(bootstrap)
    for number in range(5):
        client.produce(topic, b"%d" % number, timestamp=1_700_000_000_000 + number * 1000)
    assert client.flush(FLUSH_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    asked = [TopicPartition(topic, 0, 1_700_000_002_500)]
    (found,) = consumer.offsets_for_times(asked, timeout=10)
    assert found.offset == 3
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 5)
    consumer.close()


def test_an_out_of_range_consumer_resets(
    bootstrap: str, topic: str, consume: Callable[..., list[Message]]
) -> None:
    client = producer(bootstrap)
    client.produce(topic, b"only")
    assert client.flush(FLUSH_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 500)])
    message = wait_for(lambda: consumer.poll(0.2), "the reset")
    assert (message.error(), message.value()) == (None, b"only")
    consumer.close()


def test_a_producer_creates_its_topic(
    bootstrap: str,
    new_name: Callable[[], str],
    deliveries: Deliveries,
    consume: Callable[..., list[Message]],
) -> None:
    name = new_name()
    client = producer(bootstrap)
    client.produce(name, b"first", on_delivery=deliveries)
    assert client.flush(FLUSH_S) == 0
    assert not deliveries.errors
    assert consume(name, 1)[0].value() == b"first"
