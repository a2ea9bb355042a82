"""Spans of Produce and Fetch join the traces of the records, at a real OTLP/HTTP receiver."""

import logging
import re
from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.broker.runtime.errors import StartupError
from headrace.testing import Broker
from headrace.tracing.span_exporter import ExportCounts
from support.waiting import wait_for
from support.wire.connection import Wire
from support.wire.topics import create_topic
from support.wire.trace_receiver import TraceReceiver

SPAN = "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def receiver() -> Iterator[TraceReceiver]:
    with TraceReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def broker(receiver: TraceReceiver) -> Iterator[Broker]:
    with Broker(settings={"headrace.tracing.endpoint": receiver.endpoint}) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"traced-{uuid4().hex}"
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, name)
    return name


def produce(broker: Broker, topic: str, *flags: str, codec: str = "none") -> list[str]:
    """Produces one record with a trace for each of the flags; returns the ids of the traces."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "shop",
            "compression.type": codec,
            "linger.ms": 20,
        }
    )
    traces = [uuid4().hex for _ in flags]
    for trace, flag in zip(traces, flags, strict=True):
        headers = [("other", b"x"), ("traceparent", f"00-{trace}-{SPAN}-{flag}".encode())]
        producer.produce(topic, b"value" * 100, headers=headers)
    assert producer.flush(10) == 0
    return traces


def counts(broker: Broker) -> ExportCounts:
    assert broker.node is not None
    assert broker.node.tracing is not None
    return broker.node.tracing.exporter.counts


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_produce_and_a_fetch_join_the_trace_of_their_record(
    broker: Broker, receiver: TraceReceiver, topic: str, codec: str
) -> None:
    (trace,) = produce(broker, topic, "01", codec=codec)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "client.id": "billing",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(10) is not None
    consumer.close()
    wait_for(lambda: len(receiver.of(trace)) >= 4, "the spans have arrived")
    spans = {span.name: span for span in receiver.of(trace)}
    assert set(spans) == {f"{topic} produce", "append", "replication wait", f"{topic} fetch"}
    produced, fetched = spans[f"{topic} produce"], spans[f"{topic} fetch"]
    assert produced.parent_id == fetched.parent_id == SPAN
    assert spans["append"].parent_id == spans["replication wait"].parent_id == produced.span_id
    assert produced.attributes == {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "shop",
        "messaging.operation.name": "produce",
        "headrace.broker.id": 1,
        "headrace.acks": -1,
    }
    assert fetched.attributes["messaging.client.id"] == "billing"
    assert produced.start_ns <= spans["append"].end_ns == spans["replication wait"].start_ns
    assert spans["replication wait"].end_ns == produced.end_ns
    assert produced.service == "headrace"
    assert receiver.paths == {"/v1/traces"}


def test_records_without_a_recorded_trace_get_no_spans(
    broker: Broker, receiver: TraceReceiver, topic: str
) -> None:
    before = len(receiver.spans)
    with_flag, without_flag = produce(broker, topic, "01", "00")
    wait_for(lambda: receiver.of(with_flag), "the spans have arrived")
    assert receiver.of(without_flag) == []
    assert len(receiver.spans) == before + 3


def test_a_receiver_that_is_down_neither_delays_nor_fails_requests(
    caplog: pytest.LogCaptureFixture, receiver: TraceReceiver
) -> None:
    receiver.status = 400  # the exporter does not try such a request again
    with Broker(settings={"headrace.tracing.endpoint": receiver.endpoint}) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            create_topic(wire, "t")
        with caplog.at_level(logging.WARNING, "headrace"):
            for _ in range(5):
                produce(broker, "t", "01")
            wait_for(lambda: counts(broker).failed, "the export has failed")
        assert counts(broker).exported == 0
    assert "traces cannot be exported" in caplog.text
    receiver.status = 200


def test_the_last_spans_are_sent_when_the_broker_stops(receiver: TraceReceiver) -> None:
    with Broker(settings={"headrace.tracing.endpoint": receiver.endpoint}) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            create_topic(wire, "t")
        (trace,) = produce(broker, "t", "01")
        broker.stop()
        assert len(receiver.of(trace)) == 3


def test_an_endpoint_that_is_no_url_ends_the_start() -> None:
    expected = re.escape("headrace.tracing.endpoint: 'collector:4318' is not an http:// or")
    broker = Broker(settings={"headrace.tracing.endpoint": "collector:4318"})
    with pytest.raises(StartupError, match=expected):
        broker.start()
    broker.close()


def test_without_an_endpoint_the_handlers_are_called_directly() -> None:
    with Broker() as broker:
        assert broker.node is not None
        assert broker.node.tracing is None
