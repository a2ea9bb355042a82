"""confluent-kafka's AdminClient: topics, partitions, configs, records, offsets, cluster."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from support.waiting import wait_for
from support.wire.topics import MakeTopic

T = TypeVar("T")
TIMEOUT_S = 20.0


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def only(futures: Mapping[Any, "Future[T]"]) -> T:
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def failure(futures: Mapping[Any, "Future[object]"]) -> int:
    with pytest.raises(KafkaException) as raised:
        only(futures)
    code: int = raised.value.args[0].code()
    return code


def test_a_topic_is_created_described_and_deleted(
    admin: AdminClient, new_name: Callable[[], str]
) -> None:
    name = new_name()
    only(admin.create_topics([NewTopic(name, 4, 1, config={"retention.ms": "60000"})]))
    wait_for(lambda: name in admin.list_topics(timeout=10).topics, "the topic is listed")
    assert failure(admin.create_topics([NewTopic(name, 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS

    described = only(admin.describe_topics(TopicCollection([name])))
    assert [partition.id for partition in described.partitions] == [0, 1, 2, 3]
    assert all(partition.leader is not None for partition in described.partitions)

    only(admin.create_partitions([NewPartitions(name, 6)]))
    wait_for(
        lambda: len(admin.list_topics(name, timeout=10).topics[name].partitions) == 6,
        "six partitions",
    )
    assert failure(admin.create_partitions([NewPartitions(name, 6)])) == (
        KafkaError.INVALID_PARTITIONS
    )

    only(admin.delete_topics([name]))
    wait_for(lambda: name not in admin.list_topics(timeout=10).topics, "the topic is gone")
    assert failure(admin.delete_topics([name])) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "code"),
    [
        ("not a name", 1, 1, KafkaError.TOPIC_EXCEPTION),
        ("fine", 1, 9, KafkaError.INVALID_REPLICATION_FACTOR),
    ],
)
def test_an_invalid_topic_is_rejected(
    admin: AdminClient, name: str, partitions: int, replicas: int, code: int
) -> None:
    assert failure(admin.create_topics([NewTopic(name, partitions, replicas)])) == code


def test_topic_configs_are_described_with_their_source(
    admin: AdminClient, make_topic: MakeTopic
) -> None:
    name = make_topic(1, {"retention.ms": 3_600_000})
    configs = describe(admin, ResourceType.TOPIC, name)
    assert configs["retention.ms"].value == "3600000"
    assert configs["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not configs["retention.ms"].is_default
    assert configs["segment.bytes"].value == "1073741824"
    assert configs["segment.bytes"].source == ConfigSource.DEFAULT_CONFIG.value
    assert configs["max.message.bytes"].value == "1048588"
    assert configs["cleanup.policy"].value == "delete"


def test_every_documented_topic_config_is_listed(admin: AdminClient, topic: str) -> None:
    assert set(describe(admin, ResourceType.TOPIC, topic)) >= {
        *("cleanup.policy", "compression.type", "delete.retention.ms", "file.delete.delay.ms"),
        *("flush.messages", "flush.ms", "index.interval.bytes", "local.retention.bytes"),
        *("local.retention.ms", "max.compaction.lag.ms", "max.message.bytes"),
        *("message.timestamp.after.max.ms", "message.timestamp.before.max.ms"),
        *("message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms"),
        *("min.insync.replicas", "preallocate", "remote.storage.enable", "retention.bytes"),
        *("retention.ms", "segment.bytes", "segment.index.bytes", "segment.jitter.ms"),
        *("segment.ms", "unclean.leader.election.enable", "compression.gzip.level"),
        *("compression.lz4.level", "compression.zstd.level", "remote.log.copy.disable"),
        *("remote.log.delete.on.disable", "leader.replication.throttled.replicas"),
        *("follower.replication.throttled.replicas",),
    }


def test_topic_configs_are_altered_incrementally(admin: AdminClient, topic: str) -> None:
    def entry(name: str, value: str | None, kind: AlterConfigOpType) -> ConfigEntry:
        return ConfigEntry(name, value, incremental_operation=kind)

    alter(admin, topic, entry("retention.ms", "123456", AlterConfigOpType.SET))
    alter(admin, topic, entry("cleanup.policy", "compact", AlterConfigOpType.APPEND))
    seen = wait_for(
        lambda: settled(admin, topic, "retention.ms", "123456"), "retention.ms is altered"
    )
    assert set((seen["cleanup.policy"].value or "").split(",")) == {"compact", "delete"}
    alter(admin, topic, entry("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT))
    alter(admin, topic, entry("retention.ms", None, AlterConfigOpType.DELETE))
    seen = wait_for(
        lambda: settled(admin, topic, "retention.ms", "604800000"), "retention.ms is back"
    )
    assert seen["cleanup.policy"].value == "compact"


@pytest.mark.parametrize(
    ("name", "value"),
    [("retention.ms", "soon"), ("no.such.thing", "1"), ("cleanup.policy", "burn")],
)
def test_an_invalid_config_is_rejected_and_changes_nothing(
    admin: AdminClient, topic: str, name: str, value: str
) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    assert failure(admin.incremental_alter_configs([resource])) == KafkaError.INVALID_CONFIG
    assert not [
        config
        for config in describe(admin, ResourceType.TOPIC, topic).values()
        if config.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    ]


def test_configs_of_an_unknown_topic_are_rejected(
    admin: AdminClient, new_name: Callable[[], str]
) -> None:
    resource = ConfigResource(ResourceType.TOPIC, new_name())
    assert failure(admin.describe_configs([resource])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_broker_configs_are_described_and_altered(admin: AdminClient) -> None:
    node = str(next(iter(admin.list_topics(timeout=10).brokers)))
    configs = describe(admin, ResourceType.BROKER, node)
    assert configs["log.retention.hours"].value == "168"
    assert configs["num.io.threads"].value == "8"
    assert configs["log.dirs"].is_read_only
    assert len(configs) > 200
    entry = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, node, incremental_configs=[entry])
    only(admin.incremental_alter_configs([resource]))
    wait_for(
        lambda: describe(admin, ResourceType.BROKER, node)["log.cleaner.threads"].value == "2",
        "the broker's config is altered",
    )
    entry = ConfigEntry("log.cleaner.threads", None, incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource(ResourceType.BROKER, node, incremental_configs=[entry])
    only(admin.incremental_alter_configs([resource]))


def test_a_read_only_broker_config_cannot_be_altered(admin: AdminClient) -> None:
    node = str(next(iter(admin.list_topics(timeout=10).brokers)))
    entry = ConfigEntry("log.dirs", "/nowhere", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, node, incremental_configs=[entry])
    assert failure(admin.incremental_alter_configs([resource])) in (
        KafkaError.INVALID_REQUEST,
        KafkaError.INVALID_CONFIG,
    )


def test_records_can_be_deleted(admin: AdminClient, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 10)
    deleted = only(admin.delete_records([TopicPartition(topic, 0, 4)]))
    assert deleted.low_watermark == 4
    assert failure(admin.delete_records([TopicPartition(topic, 0, 50)])) == (
        KafkaError.OFFSET_OUT_OF_RANGE
    )
    to_the_end = only(admin.delete_records([TopicPartition(topic, 0, -1)]))
    assert to_the_end.low_watermark == 10


def test_offsets_are_listed_by_every_spec(admin: AdminClient, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 6, step_ms=1000)

    def listed(spec: OffsetSpec) -> int:
        offset: int = only(admin.list_offsets({TopicPartition(topic, 0): spec})).offset
        return offset

    assert listed(OffsetSpec.earliest()) == 0
    assert listed(OffsetSpec.latest()) == 6
    assert listed(OffsetSpec.max_timestamp()) == 5
    assert listed(OffsetSpec.for_timestamp(1_700_000_002_001)) == 3
    assert listed(OffsetSpec.for_timestamp(1_800_000_000_000)) == -1


def test_the_cluster_is_described(admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert cluster.cluster_id
    assert [node.id for node in cluster.nodes] == [cluster.controller.id]


def describe(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    return only(admin.describe_configs([ConfigResource(kind, name)]))


def settled(admin: AdminClient, topic: str, name: str, value: str) -> dict[str, ConfigEntry] | None:
    configs = describe(admin, ResourceType.TOPIC, topic)
    return configs if configs[name].value == value else None


def alter(admin: AdminClient, topic: str, entry: ConfigEntry) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    only(admin.incremental_alter_configs([resource]))


def fill(bootstrap: str, topic: str, count: int, *, step_ms: int = 0) -> None:
    client = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        client.produce(topic, b"%d" % number, timestamp=1_700_000_000_000 + number * step_ms)
    assert client.flush(TIMEOUT_S) == 0
