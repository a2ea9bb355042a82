"""Names of pushed metrics: those that a user would search for, and valid ones for any input."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.telemetry.series_names import label_name, metric_name

VALID_METRIC = re.compile(r"(org_apache_kafka|client_telemetry)_[a-z0-9_]+")
VALID_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@pytest.mark.parametrize(
    ("name", "is_counter", "found"),
    [
        (
            "org.apache.kafka.producer.connection.creation.rate",
            False,
            "org_apache_kafka_producer_connection_creation_rate",
        ),
        (
            "org.apache.kafka.producer.connection.creation.total",
            True,
            "org_apache_kafka_producer_connection_creation_total",
        ),
        ("org.apache.kafka.a.count", True, "org_apache_kafka_a_count_total"),
        ("org.apache.kafka.a.total", False, "org_apache_kafka_a"),
        ("kafka_server_x", False, "client_telemetry_kafka_server_x"),
        ("...", False, None),
        ("x" * 201, False, None),
    ],
)
def test_names_follow_the_rules_of_opentelemetry(
    name: str, is_counter: bool, found: str | None
) -> None:
    assert metric_name(name, is_counter=is_counter) == found


@given(st.text(max_size=300), st.booleans())
def test_every_name_is_valid_or_dropped(name: str, is_counter: bool) -> None:
    found = metric_name(name, is_counter=is_counter)
    assert found is None or (VALID_METRIC.fullmatch(found) and len(found) < 230)
    assert found is None or found.endswith("_total") is is_counter


@given(st.text(max_size=100))
def test_every_label_is_valid_or_dropped(name: str) -> None:
    found = label_name(name)
    assert found is None or VALID_LABEL.fullmatch(found)
    assert found not in ("le", "quantile", "client_id", "instance", "job")
