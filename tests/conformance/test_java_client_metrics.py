"""Kafka's tool manages subscriptions to client metrics, and Java clients push what they ask for."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from headrace.testing import Broker
from support.clients.java import ToolFailed, run
from support.wire.client_metrics import scraped
from support.wire.connection import Wire
from support.wire.topics import create_topic

TOOL = "org.apache.kafka.tools.ClientMetricsCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PREFIX = "org.apache.kafka.consumer."
CLIENT_ID = "java-reader"


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Broker]:
    """In this process, so that the test can read what was pushed."""
    with Broker(settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


def manage(broker: Broker, *arguments: str) -> str:
    return run(TOOL, "--bootstrap-server", broker.bootstrap_servers, *arguments)


def test_a_java_consumer_pushes_what_kafkas_tool_asked_for(own_broker: Broker) -> None:
    named = ("--name", "readers")
    manage(
        own_broker,
        *("--alter", *named, "--metrics", PREFIX, "--interval", "200"),
        *("--match", f"client_id={CLIENT_ID},client_software_name=apache-kafka-java"),
    )
    assert manage(own_broker, "--list").split() == ["readers"]
    described = manage(own_broker, "--describe", *named)
    assert f"metrics={PREFIX}" in described
    assert "interval.ms=200" in described

    with Wire(own_broker.bootstrap_servers) as wire:
        create_topic(wire, "read")
    with suppress(ToolFailed):  # it ends with a timeout
        run(
            *(CONSUMER, "--bootstrap-server", own_broker.bootstrap_servers, "--topic", "read"),
            *("--command-property", f"client.id={CLIENT_ID}", "--timeout-ms", "2000"),
        )
    (pushed,) = scraped(own_broker, "org_apache_kafka_consumer_connection_creation_total")
    assert pushed.labels["client_id"] == CLIENT_ID
    assert pushed.labels["client_software_name"] == "apache-kafka-java"
    assert pushed.value >= 1
    names = own_broker.on_loop(lambda: families(own_broker))
    assert names
    assert all(name.startswith("org_apache_kafka_consumer_") for name in names)
    ((info, _),) = scraped(own_broker, "headrace_client_metrics_client_info")
    assert info["group_id"].startswith("console-consumer-")
    assert scraped(own_broker, "kafka_server_client_metrics_plugin_error_total")[0].value == 0

    manage(own_broker, "--delete", *named)
    assert manage(own_broker, "--list").split() == []


def families(broker: Broker) -> list[str]:
    assert broker.node is not None
    receiver = broker.node.client_metrics
    assert receiver is not None
    return [family.name for family in receiver.series.families()]


def test_a_java_client_without_a_subscription_pushes_nothing(own_broker: Broker) -> None:
    def accepted() -> float:
        return scraped(own_broker, "kafka_server_client_metrics_plugin_export_total")[0].value

    before = accepted()
    with suppress(ToolFailed):
        run(
            *(CONSUMER, "--bootstrap-server", own_broker.bootstrap_servers, "--topic", "read"),
            *("--timeout-ms", "1000"),
        )
    assert accepted() == before
