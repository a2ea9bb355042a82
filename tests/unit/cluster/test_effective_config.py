"""Settings are described with their sources, as in Kafka."""

from collections.abc import Mapping

from headrace.cluster.configs.catalog import BROKER, TOPIC
from headrace.cluster.configs.config_def import ConfigType
from headrace.cluster.effective_config import (
    EffectiveConfig,
    EffectiveEntry,
    EffectiveSource,
    SynonymEntry,
)
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import ConfigChanged
from headrace.cluster.resources import (
    CLUSTER_DEFAULT,
    ConfigResource,
    ConfigResourceType,
    broker_resource,
    topic_resource,
)
from headrace.cluster.settings import BrokerSettings


def view(
    static: Mapping[str, str] | None = None,
    *,
    broker: Mapping[str, str] | None = None,
    default: Mapping[str, str] | None = None,
    topic: Mapping[str, str] | None = None,
) -> EffectiveConfig:
    image = MetadataImage().apply(
        ConfigChanged(resource, name, value)
        for resource, values in (
            (broker_resource(1), broker or {}),
            (CLUSTER_DEFAULT, default or {}),
            (topic_resource("t"), topic or {}),
        )
        for name, value in values.items()
    )
    return EffectiveConfig(BrokerSettings.parse(static or {}).static, 1, image)


def by_name(entries: list[EffectiveEntry]) -> dict[str, EffectiveEntry]:
    return {entry.name: entry for entry in entries}


def test_the_layers_win_in_kafkas_order() -> None:
    static = {"log.segment.bytes": "4000000"}
    default = {"log.segment.bytes": "3000000"}
    broker = {"log.segment.bytes": "2000000"}
    own = {"segment.bytes": "1048576"}
    for effective, value, source in (
        (view(), 1073741824, EffectiveSource.DEFAULT_CONFIG),
        (view(static), 4000000, EffectiveSource.STATIC_BROKER_CONFIG),
        (view(static, default=default), 3000000, EffectiveSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (
            view(static, default=default, broker=broker),
            2000000,
            EffectiveSource.DYNAMIC_BROKER_CONFIG,
        ),
    ):
        assert effective.topic_values("t")["segment.bytes"] == value
        entry = by_name(effective.describe_topic({}))["segment.bytes"]
        assert (entry.value, entry.source) == (str(value), source)
    effective = view(static, default=default, broker=broker, topic=own)
    assert effective.topic_values("t")["segment.bytes"] == 1048576
    entry = by_name(effective.describe_topic(own))["segment.bytes"]
    assert [(item.name, item.value, item.source) for item in entry.synonyms] == [
        ("segment.bytes", "1048576", EffectiveSource.DYNAMIC_TOPIC_CONFIG),
        ("log.segment.bytes", "2000000", EffectiveSource.DYNAMIC_BROKER_CONFIG),
        ("log.segment.bytes", "3000000", EffectiveSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.segment.bytes", "4000000", EffectiveSource.STATIC_BROKER_CONFIG),
        ("log.segment.bytes", "1073741824", EffectiveSource.DEFAULT_CONFIG),
    ]


def test_retention_in_ms_wins_over_minutes_and_minutes_over_hours() -> None:
    hour, minute = 3_600_000, 60_000
    for static, expected in (
        ({}, 168 * hour),
        ({"log.retention.hours": "72"}, 72 * hour),
        ({"log.retention.hours": "72", "log.retention.minutes": "5"}, 5 * minute),
        ({"log.retention.minutes": "5", "log.retention.ms": "7"}, 7),
        ({"log.retention.hours": "-1"}, -1),
    ):
        assert view(static).topic_values("t")["retention.ms"] == expected
    changed = view({"log.retention.hours": "72"}, default={"log.retention.ms": "9"})
    entry = by_name(changed.describe_topic({}))["retention.ms"]
    assert [(item.name, item.value) for item in entry.synonyms] == [
        ("log.retention.ms", "9"),
        ("log.retention.hours", "72"),
        ("log.retention.hours", "168"),
    ]


def test_flush_ack_applies_to_topics() -> None:
    assert view({"flush": "ack"}).topic_values("t")["flush.messages"] == 1
    assert view().topic_values("t")["flush.messages"] == 2**63 - 1


def test_topics_without_values_of_their_own_share_one_mapping() -> None:
    effective = view(topic={"retention.ms": "5"})
    assert effective.topic_values("x") is effective.topic_values("y")
    assert effective.topic_values("t")["retention.ms"] == 5
    assert effective.topic_values("x")["retention.ms"] == 604800000


def test_a_topic_lists_what_kafka_lists_and_hidden_settings_only_where_set() -> None:
    entries = view().describe_topic({})
    assert len(entries) == 33
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
    assert "internal.segment.bytes" in by_name(
        view().describe_topic({"internal.segment.bytes": "9"})
    )


def test_only_requested_names_are_described_and_unknown_ones_left_out() -> None:
    effective = view()
    assert [item.name for item in effective.describe_topic({}, ["retention.ms", "foo"])] == [
        "retention.ms"
    ]
    assert [item.name for item in effective.describe_broker(["node.id", "foo"])] == ["node.id"]


def test_a_broker_lists_every_setting_with_its_facts() -> None:
    entries = by_name(view({"num.partitions": "3"}).describe_broker())
    assert set(entries) >= {name for name, item in BROKER.items() if not item.hidden}
    partitions = entries["num.partitions"]
    assert (partitions.value, partitions.source, partitions.type, partitions.read_only) == (
        "3",
        EffectiveSource.STATIC_BROKER_CONFIG,
        ConfigType.INT,
        True,
    )
    assert [item.value for item in partitions.synonyms] == ["3", "1"]
    assert not entries["log.segment.bytes"].read_only
    assert entries["node.id"].value == entries["broker.id"].value == "1"
    assert all(entry.documentation for entry in entries.values())


def test_an_unset_name_does_not_show_the_value_of_a_lower_precedence_alternative() -> None:
    entries = by_name(view({"log.retention.hours": "72"}).describe_broker())
    assert entries["log.retention.ms"].value is None
    assert entries["log.retention.ms"].synonyms == ()
    assert entries["log.retention.hours"].value == "72"


def test_secrets_and_unknown_values_are_never_shown() -> None:
    static = {"ssl.keystore.password": "hunter2"}
    broker = {"listener.name.x.ssl.key.password": "hunter3", "foo.bar": "hunter4"}
    effective = view(static, broker=broker, default={"foo.baz": "hunter5"})
    described = effective.describe_broker() + effective.describe_cluster_default()
    assert "hunter" not in repr(described)
    entries = by_name(described)
    assert entries["ssl.keystore.password"].is_sensitive
    assert entries["ssl.keystore.password"].source is EffectiveSource.STATIC_BROKER_CONFIG
    assert entries["foo.bar"].is_sensitive
    assert entries["foo.bar"].type is ConfigType.UNKNOWN
    assert entries["listener.name.x.ssl.key.password"].is_sensitive


def test_the_cluster_default_lists_only_what_was_set() -> None:
    effective = view({"num.partitions": "3"}, default={"log.segment.bytes": "2000000"})
    (entry,) = effective.describe_cluster_default()
    assert (entry.name, entry.value, entry.source) == (
        "log.segment.bytes",
        "2000000",
        EffectiveSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )
    assert effective.describe_cluster_default(["other"]) == []


def test_groups_inherit_from_the_broker() -> None:
    group = ConfigResource(ConfigResourceType.GROUP, "g")
    image = MetadataImage().apply([ConfigChanged(group, "consumer.session.timeout.ms", "50000")])
    entries = by_name(EffectiveConfig({}, 1, image).describe_group("g"))
    session = entries["consumer.session.timeout.ms"]
    assert (session.value, session.source) == ("50000", EffectiveSource.DYNAMIC_GROUP_CONFIG)
    assert [item.name for item in session.synonyms] == [
        "consumer.session.timeout.ms",
        "group.consumer.session.timeout.ms",
    ]
    reset = entries["share.auto.offset.reset"]
    assert (reset.value, reset.source) == ("latest", EffectiveSource.DEFAULT_CONFIG)
    assert reset.synonyms == (
        SynonymEntry("share.auto.offset.reset", "latest", EffectiveSource.DEFAULT_CONFIG),
    )


def test_subscriptions_have_defaults() -> None:
    image = MetadataImage().apply(
        [
            ConfigChanged(
                ConfigResource(ConfigResourceType.CLIENT_METRICS, "m"), "interval.ms", "1000"
            )
        ]
    )
    entries = by_name(EffectiveConfig({}, 1, image).describe_client_metrics("m"))
    assert entries["interval.ms"].source is EffectiveSource.DYNAMIC_CLIENT_METRICS_CONFIG
    assert entries["match"].value == ""


def test_dynamic_broker_values_take_effect_at_once() -> None:
    effective = view({"max.connections": "5"}, broker={"max.connections": "9"})
    assert effective.broker_value("max.connections") == 9
    assert view({"max.connections": "5"}).broker_value("max.connections") == 5
    assert view().broker_value("log.retention.ms") is None


def test_every_topic_setting_with_a_default_has_an_effective_value() -> None:
    values = view().topic_values("t")
    assert set(values) == {name for name, item in TOPIC.items() if item.default is not None}
