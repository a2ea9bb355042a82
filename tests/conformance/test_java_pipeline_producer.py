"""The pipeline's transactional producer against Apache Kafka."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client.admin.offsets import LATEST, committed_offsets, list_offsets
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.dead_letters.dead_letter_writer import DeadLetterWriter
from headrace.pipeline.dead_letters.replay import Replay, Request
from headrace.pipeline.producer import ProducerFenced, ProducerSettings, TransactionalProducer
from headrace.pipeline.producer.transaction_outcome import ends_of, was_committed
from headrace.pipeline.sinks.table_sink import BatchInfo
from headrace.pipeline.sinks.topic_sink import TopicSettings, TopicSink
from headrace.records.record import Record
from headrace.testing.external import ExternalBroker
from headrace.testing.helper import Headrace
from support.brokers.older_features import without_second_protocol
from support.clients.java import KafkaNode
from support.pipelines.deliveries import deliver, delivered, place, shaped
from support.pipelines.staged_records import Bad, stage

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module", params=["implicit", "explicit"])
def helper(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Headrace]:
    home: Path = tmp_path_factory.mktemp("kafka") / "node"
    with KafkaNode(home) as node:
        broker = ExternalBroker(node.bootstrap_servers)
        if request.param == "explicit":
            without_second_protocol(broker.headrace)
        yield broker.headrace
        broker.close()


def values_of(helper: Headrace, topic: str) -> list[bytes | None]:
    return [each.value for each in helper.consume(topic, read_committed=True)]


def test_kafka_commits_consecutive_transactions_with_offsets(helper: Headrace) -> None:
    topic, source = helper.create_topic(), helper.create_topic()
    at = TopicPartition(source, 0)
    with TransactionalProducer(ProducerSettings(helper.bootstrap_servers), topic) as producer:
        producer.init()
        for number in range(3):
            producer.produce(topic, 0, [Record(0, 1, None, b"%d" % number)])
            producer.send_offsets(f"g-{topic}", {at: number}, f'{{"batch": {number}}}')
            producer.commit()
        producer.produce(topic, 0, [Record(0, 1, None, b"no")])
        producer.abort()
        producer.produce(topic, 0, [Record(0, 1, None, b"3")])
        producer.commit()
    helper.wait_for(lambda: values_of(helper, topic) == [b"0", b"1", b"2", b"3"], "all of them")
    found = helper._call(lambda client: committed_offsets(client, f"g-{topic}", timeout_s=30))
    assert (found[at].offset, found[at].metadata) == (2, '{"batch": 2}')


def test_kafka_fences_the_older_producer(helper: Headrace) -> None:
    topic = helper.create_topic()
    settings = ProducerSettings(helper.bootstrap_servers)
    with (
        TransactionalProducer(settings, topic) as old,
        TransactionalProducer(settings, topic) as new,
    ):
        old.init()
        old.produce(topic, 0, [Record(0, 1, None, b"old")])
        new.init()
        with pytest.raises(ProducerFenced):
            old.commit()
        new.produce(topic, 0, [Record(0, 1, None, b"new")])
        new.commit()
    helper.wait_for(lambda: values_of(helper, topic) == [b"new"], "the new one's")


def test_kafka_stores_dead_letters_and_replays_them_once(helper: Headrace, tmp_path: Path) -> None:
    source = helper.create_topic()
    topic = f"{source}.dlq"
    settings = ProducerSettings(helper.bootstrap_servers)
    batch = BatchInfo("p", 0, (OffsetRange(source, 0, 0, 3),))
    staged = [stage(tmp_path, [Bad(source, 0, at, b"%d" % at) for at in range(3)])]
    with DeadLetterWriter(topic, settings, f"p-{source}", tmp_path) as letters:
        assert letters.write(batch, staged) == 3
        assert letters.write(batch, staged) == 0
        marker = letters.last_marker([TopicPartition(source, 0)])
    assert marker is not None
    assert (marker.batch_id, marker.offsets) == (0, {TopicPartition(source, 0): 3})
    assert Replay(Request(topic, limit=2), settings).execute().total == 2
    assert Replay(Request(topic), settings).execute().total == 1
    assert Replay(Request(topic), settings).execute().total == 0
    helper.wait_for(lambda: values_of(helper, source) == [b"0", b"1", b"2"], "each once")


def test_kafka_commits_the_writes_of_all_tasks_in_one_transaction(
    helper: Headrace, tmp_path: Path
) -> None:
    source, topic = helper.create_topic(), helper.create_topic(partitions=3)
    settings = TopicSettings(topic, ProducerSettings(helper.bootstrap_servers), tmp_path)
    rows = pa.RecordBatch.from_pydict({"key": [f"k{at}" for at in range(40)]})
    sink = TopicSink(settings)
    for batch_id in range(3):
        batch = BatchInfo(topic, batch_id, (OffsetRange(source, 0, 0, batch_id + 1),))
        left = sink.write_task(batch)
        deliver(left, [place(left, shaped(rows), 0)])  # and then the run is killed
        sink = TopicSink(settings) if batch_id == 1 else sink
        delivery = sink.write_task(batch)
        assert delivery.identity.epoch > left.identity.epoch
        with pytest.raises(ProducerFenced):
            deliver(replace(left, locks=delivery.locks), [place(left, shaped(rows), 0)])
        delivery = sink.write_task(batch)
        sink.commit(batch, delivered(delivery, rows).written)
    helper.wait_for(lambda: len(values_of(helper, topic)) == 120, "each once")
    held = sink.last_commit(topic, [TopicPartition(source, 0)])
    sink.close()
    assert held is not None
    assert (held.batch_id, held.offsets) == (2, {TopicPartition(source, 0): 3})


def test_kafkas_partitions_show_how_a_transaction_ended(helper: Headrace) -> None:
    topic = helper.create_topic(partitions=2)
    settings = ProducerSettings(helper.bootstrap_servers)
    with TransactionalProducer(settings, topic) as producer:
        producer.init()
        for committed in (True, False, True):
            producer_id = producer.identity.producer_id
            starts = producer.call(lambda client: ends_of(client, topic, 2, 30))
            producer.produce(topic, 1, [Record(0, 1, None, b"x")])
            if committed:
                producer.commit()
            else:
                producer._writing().flush()
                producer.abort()
            at = producer_id, starts
            found = helper.wait_for(
                lambda at=at: producer.call(lambda c: _ended(c, *at)), "it has ended"
            )
            assert found == ["no", "yes"][committed]


async def _ended(
    client: ClusterClient, producer_id: int, starts: dict[TopicPartition, int]
) -> str | None:
    """None while the transaction's end is not readable yet."""
    last = TopicPartition(next(iter(starts)).topic, 1)
    found = await list_offsets(client, {last: LATEST}, timeout_s=30, read_committed=True)
    at = found[last]
    assert not isinstance(at, Refusal)
    if at.offset < starts[last] + 2:
        return None
    return "yes" if await was_committed(client, producer_id, starts, 30) else "no"
