"""A topic as a sink: one transaction per batch, and repeated batches are recognized."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.producer import (
    CommitUncertain,
    ProducerFenced,
    ProducerSettings,
    TriedAgain,
)
from headrace.pipeline.sinks.record_encoding import Encoding
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch
from headrace.pipeline.sinks.topic_sink import TopicSettings, TopicSink
from headrace.testing import Broker
from headrace.testing.helper import Headrace
from support.pipelines.deliveries import deliver, delivered, place, shaped

KEYED = Encoding("json", ("id",))


@pytest.fixture(scope="module")
def helper() -> Iterator[Headrace]:
    with Broker() as broker:
        yield broker.headrace


@pytest.fixture
def source(helper: Headrace) -> str:
    return helper.create_topic(partitions=2)


@pytest.fixture
def settings(helper: Headrace, source: str, tmp_path: Path) -> TopicSettings:
    topic = helper.create_topic(f"{source}.out", partitions=3)
    producer = ProducerSettings(helper.bootstrap_servers)
    return TopicSettings(topic, producer, tmp_path / "checkpoint", KEYED)


@pytest.fixture
def sink(settings: TopicSettings) -> Iterator[TopicSink]:
    sink = TopicSink(settings)
    yield sink
    sink.close()


def batch_of(source: str, batch_id: int, *ends: int) -> BatchInfo:
    ranges = tuple(OffsetRange(source, at, 0, end) for at, end in enumerate(ends))
    return BatchInfo(f"p-{source}", batch_id, ranges)


def partitions_of(source: str) -> list[TopicPartition]:
    return [TopicPartition(source, 0), TopicPartition(source, 1)]


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(ids), "name": [f"n{each}" for each in ids]})


def write(sink: TopicSink, batch: BatchInfo, *tasks: pa.RecordBatch) -> CommittedBatch:
    return sink.commit(batch, delivered(sink.write_task(batch), *tasks).written)


def values(helper: Headrace, topic: str, count: int) -> list[bytes | None]:
    helper.consume(topic, count, read_committed=True)
    return sorted(each.value or b"" for each in helper.consume(topic, read_committed=True))


def test_rows_become_keyed_records_with_a_marker(
    helper: Headrace, source: str, settings: TopicSettings, sink: TopicSink
) -> None:
    assert sink.last_commit(f"p-{source}", partitions_of(source)) is None
    write(sink, batch_of(source, 0, 5, 7), rows(1, 2), rows(3))
    got = helper.consume(settings.topic, 3, read_committed=True)
    expected = {
        written.partition
        for key in ('{"id":1}', '{"id":2}', '{"id":3}')
        for written in helper.produce(helper.create_topic(partitions=3), "x", key=key)
    }
    assert {each.partition for each in got} == expected
    assert sorted(each.key or b"" for each in got) == [b'{"id":1}', b'{"id":2}', b'{"id":3}']
    assert b'{"id":1,"name":"n1"}' in [each.value for each in got]
    held = sink.last_commit(f"p-{source}", partitions_of(source))
    assert held is not None
    assert held.batch_id == 0
    assert held.offsets == {TopicPartition(source, 0): 5, TopicPartition(source, 1): 7}


def test_a_repeated_batch_is_not_written_again(
    helper: Headrace, source: str, settings: TopicSettings, sink: TopicSink
) -> None:
    batch = batch_of(source, 0, 5, 7)
    write(sink, batch, rows(1))
    assert sink.commit(batch, []).batch_id == 0
    again = TopicSink(settings)
    with pytest.raises(CommitUncertain, match="planned again"):
        again.write_task(batch)
    write(again, batch_of(source, 1, 6, 7), rows(2))
    again.close()
    assert len(values(helper, settings.topic, 2)) == 2


def test_an_open_transaction_of_a_killed_run_is_aborted_by_the_next(
    helper: Headrace, source: str, settings: TopicSettings, sink: TopicSink
) -> None:
    write(sink, batch_of(source, 0, 1, 1), rows(1))
    left = sink._open_producer(f"p-{source}")
    left.produce(settings.topic, 0, [])
    left.send_offsets(f"p-{source}.sink", {TopicPartition(source, 0): 99}, '{"batch": 1}')
    again = TopicSink(settings)
    held = again.last_commit(f"p-{source}", partitions_of(source))
    assert held is not None
    assert held.batch_id == 0
    write(again, batch_of(source, 1, 2, 2), rows(2))
    with pytest.raises(ProducerFenced):
        left.commit()
    again.close()
    assert len(values(helper, settings.topic, 2)) == 2


def test_a_batch_without_rows_still_advances(
    source: str, settings: TopicSettings, sink: TopicSink
) -> None:
    write(sink, batch_of(source, 0, 5, 7))
    held = sink.last_commit(f"p-{source}", partitions_of(source))
    assert held is not None
    assert held.offsets[TopicPartition(source, 1)] == 7


def test_a_repeated_task_cannot_write_twice(
    helper: Headrace, source: str, settings: TopicSettings, sink: TopicSink
) -> None:
    batch = batch_of(source, 0, 5, 7)
    delivery = sink.write_task(batch)
    placed = [place(delivery, shaped(rows(*range(20))), 0)]
    deliver(delivery, placed)
    with pytest.raises(TriedAgain):
        deliver(delivery, placed)
    write(sink, batch, rows(*range(20)))
    assert len(values(helper, settings.topic, 20)) == 20


def test_a_batch_made_from_different_attempts_is_not_committed(
    helper: Headrace, source: str, settings: TopicSettings, sink: TopicSink
) -> None:
    batch = batch_of(source, 0, 5, 7)
    delivery = sink.write_task(batch)
    one, other = (place(delivery, shaped(rows(*range(20))), 0) for _ in range(2))
    torn = [
        part.filter(pa.array([each.as_py() in wanted for each in part.column("partition")]))
        for part, wanted in ((one, {0}), (other, {1, 2}))
    ]
    with pytest.raises(TriedAgain):
        sink.commit(batch, deliver(delivery, torn).written)
    write(sink, batch, rows(*range(20)))
    assert len(values(helper, settings.topic, 20)) == 20


def test_a_leftover_task_is_fenced_by_the_next_batch(
    helper: Headrace, source: str, settings: TopicSettings, sink: TopicSink
) -> None:
    left = sink.write_task(batch_of(source, 0, 5, 7))
    placed = [place(left, shaped(rows(*range(20))), 0)]
    now = sink.write_task(batch_of(source, 0, 5, 7))
    with pytest.raises(ProducerFenced, match="runs once only"):
        deliver(replace(left, locks=now.locks), placed)
    write(sink, batch_of(source, 0, 5, 7), rows(1))
    assert len(values(helper, settings.topic, 1)) == 1


def test_a_closed_sink_leaves_no_transaction_open(
    helper: Headrace, source: str, settings: TopicSettings, sink: TopicSink
) -> None:
    delivered(sink.write_task(batch_of(source, 0, 5, 7)), rows(1, 2, 3))
    sink.close()
    helper.produce(settings.topic, "after", partition=0)
    assert [each.value for each in helper.consume(settings.topic, 1, read_committed=True)] == [
        b"after"
    ]
