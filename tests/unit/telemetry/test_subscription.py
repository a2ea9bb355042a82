"""Which metrics a client should push: the union of its subscriptions, and the id of the set."""

import pytest

from headrace.cluster.resources import ConfigResource, ConfigResourceType, topic_resource
from headrace.telemetry.client_instances import ClientInstances
from headrace.telemetry.subscription import (
    InvalidSubscription,
    WantedMetrics,
    stored_subscriptions,
    subscription_id,
    subscription_of,
    wanted_metrics,
)

CLIENT = {"client_id": "app-1", "client_software_name": "librdkafka"}


def test_only_client_metrics_resources_are_subscriptions() -> None:
    resource = ConfigResource(ConfigResourceType.CLIENT_METRICS, "a")
    configs = {resource: {"metrics": "x."}, topic_resource("t"): {"retention.ms": "1"}}
    assert stored_subscriptions(configs) == {"a": {"metrics": "x."}}


def test_defaults_are_no_metrics_every_five_minutes_of_all_clients() -> None:
    made = subscription_of("a", {"match": ""})
    assert made.metrics == frozenset()
    assert wanted_metrics([made], CLIENT) == WantedMetrics((), 300_000)
    assert not WantedMetrics((), 300_000).includes("anything")


def test_prefixes_are_trimmed_and_match_the_beginning_of_a_name() -> None:
    wanted = wanted_metrics([subscription_of("a", {"metrics": " x.y. ,, z."})], CLIENT)
    assert wanted.metrics == ("x.y.", "z.")
    assert wanted.includes("x.y.count")
    assert not wanted.includes("a.x.y.count")


def test_an_interval_above_the_default_has_no_effect() -> None:
    """As in Kafka, the default interval is the longest."""
    made = subscription_of("a", {"interval.ms": "3600000"})
    assert wanted_metrics([made], CLIENT).interval_ms == 300_000


def test_a_pattern_that_this_version_does_not_compile_disables_its_subscription_only() -> None:
    stored = {
        "old": {"metrics": "*", "match": r"client_id=(?=app).*"},
        "new": {"metrics": "x.", "match": "client_id=app-.*"},
    }
    with pytest.raises(InvalidSubscription, match="Illegal client matching pattern"):
        subscription_of("old", stored["old"])
    instances = ClientInstances()
    assert list(instances.set_subscriptions(stored)) == ["old"]
    assert instances.set_subscriptions(stored) == {}
    assert instances.find(b"i" * 16, CLIENT, 0).wanted.metrics == ("x.",)


def test_the_id_is_a_signed_number_of_32_bits_that_depends_on_all_parts() -> None:
    found = {
        subscription_id(WantedMetrics(metrics, interval_ms), client)
        for metrics in ((), ("a",), ("a", "b"), ("ab",))
        for interval_ms in (100, 200)
        for client in (b"1" * 16, b"2" * 16)
    }
    assert len(found) == 16
    assert all(-(2**31) <= each < 2**31 for each in found)
