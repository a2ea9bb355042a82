"""librdkafka clients push their metrics by themselves, and only what a subscription asks for."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer

from headrace.broker.telemetry.client_metrics_receiver import (
    ClientMetricsReceiver,
    ReceiverCounts,
)
from headrace.testing import Broker
from support.waiting import wait_for
from support.wire.client_metrics import Value, scraped, subscribe_clients
from support.wire.connection import Wire

NAME = "test"
CONNECTIONS = "org_apache_kafka_producer_connection_creation_total"
REBALANCES = "org_apache_kafka_consumer_coordinator_rebalance_latency_total"
INSTANCES = "kafka_server_client_metrics_instances"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


def own(broker: Broker, family: str, client_id: str) -> list[Value]:
    return [one for one in scraped(broker, family) if one.labels["client_id"] == client_id]


def receiver_of(broker: Broker) -> ClientMetricsReceiver:
    assert broker.node is not None
    receiver = broker.node.client_metrics
    assert receiver is not None
    return receiver


def counts(broker: Broker) -> ReceiverCounts:
    return broker.on_loop(lambda: receiver_of(broker).counts)


def test_clients_without_a_matching_subscription_ask_once_and_push_nothing(
    broker: Broker, wire: Wire
) -> None:
    subscribe_clients(wire, NAME, match="client_id=another")
    before = counts(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    wait_for(lambda: scraped(broker, INSTANCES)[0].value > 0, "the client has asked")
    assert producer.flush(10) == 0
    del producer  # a client with a subscription pushes when it ends
    wait_for(lambda: scraped(broker, INSTANCES)[0].value == 0, "the client has gone")
    assert counts(broker) == before


def test_a_producer_pushes_what_it_is_asked_for(broker: Broker, wire: Wire) -> None:
    client_id = f"producer-{uuid4().hex}"
    subscribe_clients(
        wire,
        NAME,
        metrics="org.apache.kafka.producer.connection.",
        interval_ms=100,
        match=f"client_id={client_id}",
    )
    before = counts(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": client_id})
    wait_for(lambda: bool(own(broker, CONNECTIONS, client_id)), "a push has arrived")
    (pushed,) = own(broker, CONNECTIONS, client_id)
    assert pushed.labels["client_software_name"].startswith(("confluent-kafka", "librdkafka"))
    names = broker.on_loop(lambda: [one.name for one in receiver_of(broker).series.families()])
    assert all(name.startswith("org_apache_kafka_producer_connection_") for name in names)
    assert counts(broker).failed == before.failed
    del producer
    assert own(broker, CONNECTIONS, client_id), "the last values can still be scraped"


def test_a_running_consumer_follows_a_new_subscription(broker: Broker, wire: Wire) -> None:
    client_id = f"consumer-{uuid4().hex}"
    match = f"client_id={client_id}"
    subscribe_clients(wire, NAME, metrics="no.such.metric", interval_ms=100, match=match)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": client_id,
            "group.id": client_id,
        }
    )
    before = counts(broker)
    wait_for(lambda: counts(broker).accepted > before.accepted, "it pushes")
    subscribe_clients(wire, NAME, metrics="*", interval_ms=100, match=match)
    wait_for(lambda: bool(own(broker, REBALANCES, client_id)), "it pushes another set")
    consumer.close()
