"""Data and clients survive a stop and a restart of the broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from support.brokers.processes import BrokerProcess
from support.waiting import wait_for
from support.wire.batches import (
    batch,
    fetch,
    fetch_request,
    produce,
    records_of,
    topic_id_of,
    values_of,
)
from support.wire.connection import Wire
from support.wire.topics import create_topic

TOPIC_RESOURCE = 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as started:
        yield started


def restart(broker: BrokerProcess, *, cleanly: bool) -> None:
    if cleanly:
        assert broker.stop() == 0
    else:
        broker.kill()
    broker.start()


@pytest.mark.parametrize("cleanly", [True, False], ids=["stop", "kill -9"])
def test_topics_records_configs_and_ids_survive_a_restart(
    broker: BrokerProcess, cleanly: bool
) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "kept", 3, {"retention.ms": 3_600_000, "segment.bytes": 1_048_576})
        for number in range(30):
            value = b"%d" % number * 1000
            assert produce(wire, "kept", batch(value), partition=number % 3).error_code == 0
        before = [_everything(wire, partition) for partition in range(3)]
        topic_id, cluster_id = topic_id_of(wire, "kept"), _cluster_id(wire)
    restart(broker, cleanly=cleanly)
    with Wire(broker.bootstrap_servers) as wire:
        assert [_everything(wire, partition) for partition in range(3)] == before
        assert (topic_id_of(wire, "kept"), _cluster_id(wire)) == (topic_id, cluster_id)
        assert _config(wire, "kept", "retention.ms") == "3600000"
        assert produce(wire, "kept", batch(b"next")).base_offset == 10


@pytest.mark.parametrize("cleanly", [True, False], ids=["stop", "kill -9"])
def test_deleted_records_stay_deleted(broker: BrokerProcess, cleanly: bool) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "cut")
        for number in range(10):
            produce(wire, "cut", batch(b"%d" % number))
        request = DeleteRecordsRequest(
            timeout_ms=5000,
            topics=[
                DeleteRecordsTopic(
                    name="cut", partitions=[DeleteRecordsPartition(partition_index=0, offset=6)]
                )
            ],
        )
        (answer,) = wire.call(request, DeleteRecordsResponse).topics
        assert answer.partitions[0].error_code == 0
    restart(broker, cleanly=cleanly)
    with Wire(broker.bootstrap_servers) as wire:
        data = fetch(wire, fetch_request("cut", 6))
        if cleanly:
            assert data.log_start_offset == 6
        assert values_of(data.records)[0] == b"6"
        assert produce(wire, "cut", batch(b"10")).base_offset == 10


@pytest.mark.parametrize("cleanly", [True, False], ids=["stop", "kill -9"])
def test_a_duplicate_is_recognized_after_a_restart(broker: BrokerProcess, cleanly: bool) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "once")
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        producer = wire.call(request, InitProducerIdResponse)
        sent = [
            batch(
                b"%d" % number,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=number,
            )
            for number in range(4)
        ]
        for one in sent:
            assert produce(wire, "once", one).error_code == 0
    restart(broker, cleanly=cleanly)
    with Wire(broker.bootstrap_servers) as wire:
        for offset, one in enumerate(sent):
            again = produce(wire, "once", one)
            assert (again.error_code, again.base_offset) == (0, offset)
        assert wire.call(request, InitProducerIdResponse).producer_id != producer.producer_id
        assert fetch(wire, fetch_request("once")).high_watermark == 4


def test_a_deleted_topic_does_not_come_back(broker: BrokerProcess) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "gone")
        produce(wire, "gone", batch(b"a"))
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=5000)
        assert wire.call(request, DeleteTopicsResponse).responses[0].error_code == 0
    restart(broker, cleanly=False)
    with Wire(broker.bootstrap_servers) as wire:
        assert not any(topic_id_of(wire, "gone"))
        create_topic(wire, "gone")
        assert fetch(wire, fetch_request("gone")).high_watermark == 0


def test_clients_survive_a_broker_restart(broker: BrokerProcess) -> None:
    """Every record is delivered once and in order, and a consumer resumes where it stopped."""
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "steady")
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    quick = {
        "bootstrap.servers": broker.bootstrap_servers,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    producer = Producer({**quick, "enable.idempotence": True, "linger.ms": 1})
    consumer = Consumer({**quick, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition("steady", 0, 0)])
    seen: list[bytes | None] = []

    def read(count: int) -> None:
        def enough() -> bool:
            found = consumer.consume(500, timeout=0.1)
            seen.extend(message.value() for message in found if message.error() is None)
            return len(seen) >= count

        wait_for(enough, f"{count} messages")

    sent = 0
    for cleanly in (True, False):
        for _ in range(300):
            producer.produce("steady", b"%d" % sent, on_delivery=delivered)
            sent += 1
            producer.poll(0)
        restart(broker, cleanly=cleanly)
        for _ in range(300):
            producer.produce("steady", b"%d" % sent, on_delivery=delivered)
            sent += 1
        assert producer.flush(30) == 0
        read(sent)
    consumer.close()
    assert not failures
    assert seen == [b"%d" % number for number in range(sent)]


def _everything(wire: Wire, partition: int) -> list[tuple[int, int, bytes | None]]:
    data = fetch(wire, fetch_request("kept", partition=partition, partition_max_bytes=1 << 24))
    return [(record.offset, record.timestamp, record.value) for record in records_of(data.records)]


def _cluster_id(wire: Wire) -> str:
    return wire.call(DescribeClusterRequest(), DescribeClusterResponse).cluster_id


def _config(wire: Wire, topic: str, name: str) -> str | None:
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[name]
    )
    request = DescribeConfigsRequest(resources=[resource])
    (result,) = wire.call(request, DescribeConfigsResponse).results
    (config,) = result.configs
    return config.value
