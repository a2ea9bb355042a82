"""kafka-python 3: producing, consuming with assigned partitions, and its admin client."""

import warnings
from collections.abc import Callable, Iterator

import pytest

from headrace.records.partitioner import partition_for_key
from support.waiting import wait_for
from support.wire.topics import MakeTopic

with warnings.catch_warnings():
    # It reads its schemas through an importlib API that newer Python versions deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
    from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

TIMEOUT_S = 20


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def consumed(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[object]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        parts = [TopicPartition(topic, index) for index in range(partitions)]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        found: list[object] = []

        def enough() -> bool:
            for records in consumer.poll(timeout_ms=200).values():
                found.extend(records)
            return len(found) >= count

        wait_for(enough, f"{count} messages")
        return found
    finally:
        consumer.close()


# Its other codecs need libraries that it does not install.
@pytest.mark.parametrize("codec", [None, "gzip"])
def test_produced_records_are_consumed(bootstrap: str, topic: str, codec: str | None) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5)
    values = [f"value {number}".encode() * 10 for number in range(200)]
    sent = [producer.send(topic, value) for value in values]
    producer.flush(TIMEOUT_S)
    assert [future.get(TIMEOUT_S).offset for future in sent] == list(range(200))
    producer.close()
    assert [message.value for message in consumed(bootstrap, topic, 200)] == values  # type: ignore[attr-defined]


def test_keys_map_to_the_same_partitions_as_in_java(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(5)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(50):
        key = b"%d" % number
        assert producer.send(topic, b"v", key=key).get(TIMEOUT_S).partition == (
            partition_for_key(key, 5)
        )
    producer.close()


def test_a_message_over_the_limit_is_too_large(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, max_request_size=5_000_000)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * 2_000_000).get(TIMEOUT_S)
    producer.close()


def test_offsets_at_both_ends_and_by_time(bootstrap: str, topic: str) -> None:
    base = 1_700_000_000_000
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(5):
        producer.send(topic, b"v", timestamp_ms=base + number * 1000).get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    partition = TopicPartition(topic, 0)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 5}
    assert consumer.offsets_for_times({partition: base + 2500})[partition].offset == 3
    consumer.close()


def test_the_admin_client_manages_topics(
    admin: KafkaAdminClient, new_name: Callable[[], str]
) -> None:
    name = new_name()
    admin.create_topics([NewTopic(name, 2, 1, topic_configs={"retention.ms": "60000"})])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(name, 2, 1)])
    wait_for(lambda: name in admin.list_topics(), "the topic is listed")
    admin.create_partitions({name: NewPartitions(3)})
    wait_for(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 3, "three partitions")
    admin.delete_topics([name])
    wait_for(lambda: name not in admin.list_topics(), "the topic is gone")


def test_the_admin_client_describes_configs_and_cluster(
    admin: KafkaAdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(1, {"retention.ms": 60_000})
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    assert "60000" in repr(admin.describe_configs([resource]))
    cluster = admin.describe_cluster()
    assert cluster["cluster_id"]
    assert len(cluster["brokers"]) == 1


def test_the_admin_client_changes_log_levels(admin: KafkaAdminClient) -> None:
    """librdkafka's clients cannot: they have no such resource."""
    node, logger = str(admin.describe_cluster()["brokers"][0]["broker_id"]), "headrace.broker.share"

    def resource(change: object) -> ConfigResource:
        return ConfigResource(ConfigResourceType.BROKER_LOGGER, node, {logger: change})

    assert "TRACE" not in repr(admin.describe_configs([resource(None)], config_filter="all"))
    admin.alter_configs([resource("TRACE")])
    assert "TRACE" in repr(admin.describe_configs([resource(None)], config_filter="all"))
    admin.alter_configs([resource(("DELETE", None))])
    assert "TRACE" not in repr(admin.describe_configs([resource(None)], config_filter="all"))
