"""The tables of settings are consistent."""

import subprocess
import sys

import pytest

from headrace.cluster.configs.catalog import BROKER, BY_RESOURCE, TOPIC, base_name
from headrace.cluster.configs.config_def import ConfigType, UpdateMode
from headrace.cluster.configs.settings_table import BadTable, index, read_table

EVERY = [item for table in BY_RESOURCE.values() for item in table.values()]


def test_every_default_is_a_valid_value() -> None:
    for item in EVERY:
        if item.default is not None:
            assert item.canonical(item.default) == item.default or item.type is ConfigType.DOUBLE


def test_every_setting_says_what_it_does_and_what_it_allows() -> None:
    for item in EVERY:
        assert item.documentation.endswith("."), item.name
        assert len(item.documentation) > 10, item.name
        assert item.allowed(), item.name


def test_every_inherited_default_equals_the_default_of_a_broker_setting() -> None:
    for item in EVERY:
        defaults = {
            str(int(BROKER[synonym.name].default or 0) * synonym.factor)
            if synonym.factor > 1
            else BROKER[synonym.name].default
            for synonym in item.synonyms
        }
        if item.synonyms:
            assert item.default in defaults, item.name


def test_definitions_match_kafka_4_3() -> None:
    assert TOPIC["message.timestamp.after.max.ms"].default == "3600000"
    assert TOPIC["segment.bytes"].minimum == 1048576
    assert [synonym.name for synonym in TOPIC["retention.ms"].synonyms] == [
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ]
    assert BROKER["num.recovery.threads.per.data.dir"].default == "2"
    assert BROKER["num.partitions"].update_mode is UpdateMode.READ_ONLY
    assert BROKER["log.segment.bytes"].update_mode is UpdateMode.CLUSTER_WIDE
    assert BROKER["listeners"].update_mode is UpdateMode.PER_BROKER
    assert BROKER["ssl.keystore.password"].sensitive
    assert not BROKER["controller.quorum.voters"].meaningful_here
    assert len([item for item in TOPIC.values() if not item.hidden]) == 33


def test_zookeeper_settings_are_in_the_catalog() -> None:
    for name in ("zookeeper.connect", "broker.id", "controlled.shutdown.max.retries"):
        assert BROKER[name].meaningful_here


def test_a_listeners_override_is_looked_up_by_the_setting_it_overrides() -> None:
    assert base_name("listener.name.internal.ssl.client.auth") == "ssl.client.auth"
    assert base_name("listener.name.a.scram-sha-256.sasl.jaas.config") == "sasl.jaas.config"
    assert base_name("num.partitions") == "num.partitions"


def test_a_malformed_table_is_refused() -> None:
    with pytest.raises(BadTable, match="unknown attribute"):
        list(read_table("a int 1 nonsense\n    Text."))
    with pytest.raises(BadTable, match="twice"):
        index(read_table("a int 1\n    Text.\na int 2\n    Text."))


def test_the_table_imports_nothing_heavy() -> None:
    code = (
        "import sys, headrace.cluster.configs.catalog as c;"
        "print([m for m in ('asyncio', 'difflib', 'json', 'sqlite3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
