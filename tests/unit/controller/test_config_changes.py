"""Configurations change under Kafka's checks, a resource as a whole or not at all."""

import pytest

from headrace.cluster.resources import (
    CLUSTER_DEFAULT,
    ConfigResource,
    ConfigResourceType,
    broker_resource,
    topic_resource,
)
from headrace.controller.config_changes import AlterOperation, ConfigAlteration, ConfigOp
from headrace.controller.metadata_controller import MetadataController
from headrace.controller.result import ApiError
from headrace.controller.topic_changes import NewTopic
from headrace.protocol.errors import ErrorCode
from support.brokers.controllers import commit, controller

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
GROUP, METRICS = ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS
SET, DELETE, APPEND, SUBTRACT = AlterOperation


def with_topic() -> MetadataController:
    made = controller()
    commit(made, made.create_topics([NewTopic("t")]))
    return made


def alter(
    made: MetadataController, type_: int, name: str, *changes: tuple[str, str | None, int]
) -> ApiError:
    ops = [ConfigOp(*change) for change in changes]
    outcome = made.incremental_alter_configs([ConfigAlteration(type_, name, ops)])
    return commit(made, outcome).error


def test_values_of_a_topic_are_set_and_deleted() -> None:
    made = with_topic()
    assert alter(made, TOPIC, "t", ("retention.ms", "5", SET), ("flush.ms", "6", SET)).code == 0
    assert made.image.config(topic_resource("t")) == {"retention.ms": "5", "flush.ms": "6"}
    assert alter(made, TOPIC, "t", ("retention.ms", None, DELETE)).code == 0
    assert made.image.config(topic_resource("t")) == {"flush.ms": "6"}


def test_append_and_subtract_start_from_the_default_and_keep_no_duplicates() -> None:
    made = with_topic()
    for operation, value, expected in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact, delete", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact,delete", ""),
    ):
        assert alter(made, TOPIC, "t", ("cleanup.policy", value, operation)).code == 0
        assert made.image.config(topic_resource("t"))["cleanup.policy"] == expected


@pytest.mark.parametrize(
    ("type_", "name", "change", "code", "message"),
    [
        (
            TOPIC,
            "no",
            ("retention.ms", "1", SET),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'no' does not exist.",
        ),
        (
            TOPIC,
            "",
            ("retention.ms", "1", SET),
            ErrorCode.INVALID_REQUEST,
            "Default topic resources are not allowed.",
        ),
        (
            TOPIC,
            "t",
            ("foo", "1", SET),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: foo",
        ),
        (
            TOPIC,
            "t",
            ("retention.ms", "x", SET),
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            TOPIC,
            "t",
            ("retention.ms", "1", APPEND),
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            "t",
            ("retention.ms", None, SET),
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            "t",
            ("retention.ms", "1", 9),
            ErrorCode.INVALID_REQUEST,
            "Unknown operations type 9",
        ),
        (
            TOPIC,
            "t",
            ("min.compaction.lag.ms", str(2**63 - 1), SET),
            ErrorCode.NONE,
            None,
        ),
        (
            TOPIC,
            "t",
            ("remote.storage.enable", "TRUE", SET),
            ErrorCode.INVALID_CONFIG,
            (
                "Tiered Storage functionality is disabled in the broker. Topic cannot be "
                "configured with remote log storage."
            ),
        ),
        (
            TOPIC,
            "t",
            ("leader.replication.throttled.replicas", "1:1," * 9000 + "1:1", SET),
            ErrorCode.INVALID_CONFIG,
            (
                "The configuration value cannot be added because it exceeds the maximum value size "
                "of 32767 bytes."
            ),
        ),
        (
            BROKER,
            "1",
            ("num.partitions", "3", SET),
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            BROKER,
            "",
            ("listeners", "PLAINTEXT://:1", SET),
            ErrorCode.INVALID_REQUEST,
            (
                "Cannot update these configs at default cluster level, broker id must be "
                "specified: [listeners]"
            ),
        ),
        (
            BROKER,
            "",
            ("listener.name.x.ssl.keystore.location", "x", SET),
            ErrorCode.INVALID_REQUEST,
            (
                "Cannot update these configs at default cluster level, broker id must be "
                "specified: [listener.name.x.ssl.keystore.location]"
            ),
        ),
        (
            BROKER,
            "1",
            ("sasl.enabled.mechanisms", "PLAIN", SET),
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [sasl.enabled.mechanisms]",
        ),
        (
            BROKER,
            "1",
            ("ssl.keystore.password", "x", SET),
            ErrorCode.INVALID_REQUEST,
            (
                "These security configs can be dynamically updated only per-listener using the "
                "listener prefix: [ssl.keystore.password]"
            ),
        ),
        (
            BROKER,
            "7",
            ("log.cleaner.threads", "3", SET),
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 7",
        ),
        (
            BROKER,
            "x",
            ("log.cleaner.threads", "3", SET),
            ErrorCode.INVALID_REQUEST,
            "Node id must be an integer, but it is: x",
        ),
        (
            BROKER,
            "",
            ("log.segment.bytes", "5", SET),
            ErrorCode.INVALID_REQUEST,
            "Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576",
        ),
        (
            BROKER,
            "",
            ("log.retention.ms", "1", SUBTRACT),
            ErrorCode.INVALID_CONFIG,
            "Config value subtract is not allowed for config key: log.retention.ms",
        ),
        (
            GROUP,
            "",
            ("consumer.session.timeout.ms", "50000", SET),
            ErrorCode.INVALID_REQUEST,
            "Default group resources are not allowed.",
        ),
        (
            GROUP,
            "g",
            ("foo", "1", SET),
            ErrorCode.INVALID_CONFIG,
            "Unknown group config name: foo",
        ),
        (
            GROUP,
            "g",
            ("consumer.session.timeout.ms", "5", SET),
            ErrorCode.INVALID_CONFIG,
            (
                "consumer.session.timeout.ms must be greater than or equal to "
                "group.consumer.min.session.timeout.ms"
            ),
        ),
        (
            GROUP,
            "g",
            ("consumer.session.timeout.ms", "500000", SET),
            ErrorCode.INVALID_CONFIG,
            (
                "consumer.session.timeout.ms must be less than or equal to "
                "group.consumer.max.session.timeout.ms"
            ),
        ),
        (
            METRICS,
            "",
            ("interval.ms", "1000", SET),
            ErrorCode.INVALID_REQUEST,
            "Subscription name can't be empty",
        ),
        (
            METRICS,
            "m",
            ("foo", "1", SET),
            ErrorCode.INVALID_REQUEST,
            "Unknown client metrics configuration: foo",
        ),
        (
            METRICS,
            "m",
            ("match", "client_id=[", SET),
            ErrorCode.INVALID_CONFIG,
            "Illegal client matching pattern: client_id=[",
        ),
        (
            METRICS,
            "m",
            ("match", "foo=bar", SET),
            ErrorCode.INVALID_CONFIG,
            "Illegal client matching pattern: foo=bar",
        ),
        (3, "x", ("a", "b", SET), ErrorCode.INVALID_REQUEST, "Unknown resource type 3"),
    ],
)
def test_a_change_that_breaks_a_rule_changes_nothing(
    type_: int, name: str, change: tuple[str, str | None, int], code: ErrorCode, message: str | None
) -> None:
    made = with_topic()
    before = made.image.configs
    assert alter(made, type_, name, change) == (code, message)
    if code != ErrorCode.NONE:
        assert made.image.configs == before


def test_one_bad_value_refuses_the_whole_resource() -> None:
    made = with_topic()
    error = alter(made, TOPIC, "t", ("retention.ms", "1", SET), ("foo", "2", SET))
    assert error.code == ErrorCode.INVALID_CONFIG
    assert made.image.config(topic_resource("t")) == {}


def test_a_duplicate_key_or_resource_is_refused() -> None:
    made = with_topic()
    twice = alter(made, TOPIC, "t", ("retention.ms", "1", SET), ("retention.ms", "2", SET))
    assert twice == (ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    change = ConfigAlteration(TOPIC, "t", [ConfigOp("retention.ms", "1")])
    outcome = made.incremental_alter_configs([change, change])
    assert outcome.records == ()
    expected = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert [result.error for result in outcome.results] == [expected, expected]


def test_alter_configs_replaces_all_values() -> None:
    made = with_topic()
    alter(made, TOPIC, "t", ("retention.ms", "5", SET), ("flush.ms", "6", SET))
    change = ConfigAlteration(TOPIC, "t", [ConfigOp("segment.ms", "7")])
    assert commit(made, made.alter_configs([change])).error.code == 0
    assert made.image.config(topic_resource("t")) == {"segment.ms": "7"}
    null = ConfigAlteration(TOPIC, "t", [ConfigOp("segment.ms", None)])
    assert commit(made, made.alter_configs([null])).error.code == ErrorCode.INVALID_REQUEST


def test_validate_only_checks_and_changes_nothing() -> None:
    made = with_topic()
    good = ConfigAlteration(TOPIC, "t", [ConfigOp("retention.ms", "5")])
    bad = ConfigAlteration(TOPIC, "no", [ConfigOp("retention.ms", "5")])
    for call in (made.incremental_alter_configs, made.alter_configs):
        outcome = call([good, bad], validate_only=True)
        assert outcome.records == ()
        assert [item.error.code for item in outcome.results] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]


def test_a_broker_and_the_cluster_have_values_of_their_own() -> None:
    made = controller()
    assert alter(made, BROKER, "1", ("log.segment.bytes", "2000000", SET)).code == 0
    assert alter(made, BROKER, "", ("log.segment.bytes", "3000000", SET)).code == 0
    assert made.image.config(broker_resource(1)) == {"log.segment.bytes": "2000000"}
    assert made.image.config(CLUSTER_DEFAULT) == {"log.segment.bytes": "3000000"}


def test_unknown_broker_config_names_are_kept_as_in_kafka() -> None:
    made = controller()
    assert alter(made, BROKER, "1", ("foo.bar", "x", SET)).code == 0
    assert made.image.config(broker_resource(1)) == {"foo.bar": "x"}


def test_an_invalid_secret_is_not_in_the_error_message() -> None:
    made = controller()
    error = alter(made, BROKER, "1", ("listener.name.a.ssl.key.password", "x" * 40_000, SET))
    assert error.code == ErrorCode.INVALID_CONFIG
    assert "xxx" not in str(error.message)


PASSWORD = "listener.name.a.ssl.key.password"


def test_a_password_is_encrypted_and_used_in_clear_and_described_without_its_value() -> None:
    static = {"password.encoder.secret": "s3", "node.id": "1"}
    made = controller(static=static)
    assert alter(made, BROKER, "1", (PASSWORD, "hush" * 8_000, SET)).code == 0
    text = made.image.config(broker_resource(1))[PASSWORD]
    assert "hush" not in text
    assert made.configs.effective.listener("A").string("ssl.key.password") == "hush" * 8_000
    (entry,) = made.configs.describe(BROKER, "1", {PASSWORD}).entries
    assert (entry.value, entry.is_sensitive) == (None, True)
    assert {synonym.value for synonym in entry.synonyms} == {None}
    # Another change keeps the stored text.
    assert alter(made, BROKER, "1", ("log.segment.bytes", "2000000", SET)).code == 0
    assert made.image.config(broker_resource(1))[PASSWORD] == text
    assert alter(made, BROKER, "1", (PASSWORD, None, DELETE)).code == 0
    assert PASSWORD not in made.image.config(broker_resource(1))


def test_without_the_encoder_secret_a_password_is_refused() -> None:
    made = controller()
    error = alter(made, BROKER, "1", (PASSWORD, "hush", SET), ("log.segment.bytes", "2000000", SET))
    assert error.code == ErrorCode.INVALID_REQUEST
    assert "Password encoder secret not configured" in str(error.message)
    assert "hush" not in str(error.message)
    assert not made.image.config(broker_resource(1))


def test_a_groups_heartbeat_interval_must_be_shorter_than_its_session() -> None:
    made = controller(static={"group.share.max.heartbeat.interval.ms": "90000"})
    error = alter(made, GROUP, "g", ("share.heartbeat.interval.ms", "45000", SET))
    assert error == (
        ErrorCode.INVALID_CONFIG,
        "share.session.timeout.ms must be greater than share.heartbeat.interval.ms",
    )


def test_compaction_lags_are_checked_against_inherited_values() -> None:
    made = with_topic()
    alter(made, BROKER, "", ("log.cleaner.max.compaction.lag.ms", "10", SET))
    error = alter(made, TOPIC, "t", ("min.compaction.lag.ms", "100", SET))
    assert error == (
        ErrorCode.INVALID_CONFIG,
        "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (10)",
    )


def test_an_unchanged_value_makes_no_record() -> None:
    made = with_topic()
    change = ConfigAlteration(TOPIC, "t", [ConfigOp("retention.ms", "5")])
    assert made.incremental_alter_configs([change]).records
    commit(made, made.incremental_alter_configs([change]))
    assert made.incremental_alter_configs([change]).records == ()


# -- describing ---------------------------------------------------------------------------------


def test_each_kind_of_resource_is_described() -> None:
    made = with_topic()
    alter(made, GROUP, "g", ("consumer.session.timeout.ms", "50000", SET))
    configs = made.configs
    assert len(configs.describe(TOPIC, "t").entries) == 33
    assert len(configs.describe(GROUP, "g").entries) == 17
    assert len(configs.describe(METRICS, "m").entries) == 3
    assert len(configs.describe(BROKER, "1").entries) > 340
    assert configs.describe(BROKER, "").entries == []
    assert [item.name for item in configs.describe(TOPIC, "t", ["flush.ms"]).entries] == [
        "flush.ms"
    ]


@pytest.mark.parametrize(
    ("type_", "name", "code"),
    [
        (TOPIC, "no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_describe_errors_give_the_reason(type_: int, name: str, code: ErrorCode) -> None:
    described = with_topic().configs.describe(type_, name)
    assert described.entries == ()
    assert described.error.code == code


def test_resources_are_listed_by_type() -> None:
    made = with_topic()
    alter(made, GROUP, "g", ("consumer.session.timeout.ms", "50000", SET))
    alter(made, METRICS, "m", ("interval.ms", "1000", SET))
    assert made.configs.resources([METRICS]) == [ConfigResource(METRICS, "m")]
    assert set(made.configs.resources([])) == {
        ConfigResource(TOPIC, "t"),
        ConfigResource(BROKER, "1"),
        ConfigResource(ConfigResourceType.BROKER_LOGGER, "1"),
        ConfigResource(METRICS, "m"),
        ConfigResource(GROUP, "g"),
    }
