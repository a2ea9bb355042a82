"""Values are parsed as in Kafka and refused with Kafka's messages."""

import pytest

from headrace.cluster.configs.catalog import BROKER, GROUP, TOPIC
from headrace.cluster.configs.config_def import ConfigValue, InvalidConfig


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 5000 ", 5000),
        ("retention.ms", "+7", 7),
        ("cleanup.policy", "delete, compact", ("delete", "compact")),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("cleanup.policy", "", ()),
        ("preallocate", "TRUE", True),
        ("min.cleanable.dirty.ratio", "1", 1.0),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,2:3", ("0:1", "2:3")),
        ("compression.gzip.level", "-1", -1),
        ("flush.messages", str(2**63 - 1), 2**63 - 1),
    ],
)
def test_topic_values_are_read(name: str, text: str, value: ConfigValue) -> None:
    assert TOPIC[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("retention.ms", "abc", "Not a number of type LONG"),
        ("retention.ms", "", "Not a number of type LONG"),
        ("retention.ms", "1_000", "Not a number of type LONG"),
        ("retention.ms", "٣", "Not a number of type LONG"),
        ("retention.ms", str(2**63), "Not a number of type LONG"),
        ("retention.ms", "9" * 5000, "Not a number of type LONG"),
        ("segment.bytes", "99999999999", "Not a number of type INT"),
        ("segment.bytes", "10", "Value must be at least 1048576"),
        ("retention.ms", "-5", "Value must be at least -1"),
        ("compression.zstd.level", "23", "Value must be no more than 22"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "x", "Not a number of type DOUBLE"),
        ("cleanup.policy", "foo", "String must be one of: compact, delete"),
        ("message.timestamp.type", "x", "String must be one of: CreateTime, LogAppendTime"),
    ],
)
def test_bad_topic_values_are_refused_with_kafkas_words(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        TOPIC[name].parse(text)
    assert caught.value.reason == reason
    assert (
        str(caught.value)
        == f"Invalid value {caught.value.value} for configuration {name}: {reason}"
    )


def test_an_empty_list_item_is_refused() -> None:
    for text in (",", "delete,"):
        with pytest.raises(InvalidConfig) as caught:
            TOPIC["cleanup.policy"].parse(text)
        assert str(caught.value) == "Configuration 'cleanup.policy' values must not be empty."


def test_throttled_replicas_are_a_star_or_pairs() -> None:
    with pytest.raises(InvalidConfig, match=r"the literal '\*' or a list of replicas"):
        TOPIC["leader.replication.throttled.replicas"].parse("1:2,*")


@pytest.mark.parametrize("text", ["earliest", "latest", "by_duration:P1DT2H", "by_duration:PT0.5S"])
def test_share_auto_offset_reset_accepts_names_and_durations(text: str) -> None:
    assert GROUP["share.auto.offset.reset"].parse(text) == text


@pytest.mark.parametrize("text", ["foo", "by_duration:", "by_duration:P", "by_duration:PT", ""])
def test_other_values_of_share_auto_offset_reset_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="must be either 'earliest', 'latest'"):
        GROUP["share.auto.offset.reset"].parse(text)


def test_some_choices_ignore_case() -> None:
    policy = BROKER["group.consumer.migration.policy"]
    assert policy.parse("Upgrade") == "Upgrade"
    with pytest.raises(InvalidConfig, match="case insensitive"):
        policy.parse("sideways")


def test_connection_overrides_are_pairs() -> None:
    overrides = BROKER["max.connections.per.ip.overrides"]
    assert overrides.parse("10.0.0.1:5, host:7") == "10.0.0.1:5, host:7"
    with pytest.raises(InvalidConfig):
        overrides.parse("foo")


def test_equal_values_have_one_canonical_text() -> None:
    assert TOPIC["preallocate"].canonical(" True ") == "true"
    assert TOPIC["cleanup.policy"].canonical("delete , compact") == "delete,compact"
    assert TOPIC["retention.ms"].canonical("+007") == "7"
