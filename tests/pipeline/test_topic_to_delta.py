"""Every record of a topic is written to a Delta table once, despite crashes."""

import json
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace.client.results import TopicPartition
from headrace.pipeline.application.history import RunHistory
from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.core.group_metadata import Progress, progress_of
from headrace.pipeline.runner import flow_loop
from headrace.pipeline.runner.events import EventKind
from headrace.pipeline.runner.step_loop import LoopStep
from headrace.pipeline.sinks.delta_sink import DeltaSink
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch, WrittenFile
from headrace.pipeline.source.admin import LogAdmin
from headrace.pipeline.source.settings import ReadSettings
from support.pipelines.delta_pipeline import MakePipeline, Record, Send
from support.wire.topics import MakeTopic

pytestmark = pytest.mark.xdist_group("spark")

BROKEN = b'{"id": '
SQL = "SELECT id, _record.partition AS p, _record.offset AS o FROM source"


class Killed(BaseException):
    """Simulates a killed process: no handler catches it."""


def order(number: int) -> bytes:
    return json.dumps({"id": number, "amount": number / 2}).encode()


def orders(partition: int, numbers: range) -> list[Record]:
    return [(partition, b"k", order(number)) for number in numbers]


def places(partition: int, offsets: range) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in offsets]


def test_every_record_is_written_once_and_a_restart_continues(
    make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send, bootstrap: str
) -> None:
    topic = make_topic(2)
    send(topic, [*orders(0, range(50)), (0, None, BROKEN), *orders(1, range(30))])
    pipeline = make_pipeline(topic, on_error="skip")
    assert pipeline.run() == []
    assert pipeline.places() == [*places(0, range(50)), *places(1, range(30))]
    assert {row["id"]: row["amount"] for row in pipeline.rows()}[49] == 24.5
    (batch,) = pipeline.batches()
    assert (batch.rows, dict(batch.bad), batch.skipped) == (80, {"NotJson": 1}, 1)
    assert set(batch.phases) == {"plan", "prepare", "write", "commit", "group"}
    assert batch.batch_id is not None
    marks = LogAdmin(ReadSettings(bootstrap)).committed(pipeline.flow.id).values()
    assert {progress_of(each.metadata) for each in marks} == {
        Progress(batch.batch_id, batch.version)
    }
    run = Checkpoint(pipeline.flow.checkpoint).last_run()
    assert run is not None
    assert (run["flow"], run["pid"]) == (pipeline.flow.id, os.getpid())
    assert run["spec"]["source"]["topics"] == [topic]

    send(topic, orders(1, range(30, 40)))
    assert pipeline.run() == []
    assert pipeline.places() == [*places(0, range(50)), *places(1, range(40))]
    ends = {TopicPartition(topic, 0): 51, TopicPartition(topic, 1): 40}
    assert pipeline.log.committed(pipeline.flow.id) == ends  # what every Kafka tool shows
    kinds = [
        row["kind"] for row in RunHistory(Checkpoint(pipeline.flow.checkpoint).history).events()
    ]
    assert kinds == ["started", "batch", "caught_up", "stopped"] * 2


@pytest.mark.parametrize("spark_tells", [True, False])
def test_a_batch_is_limited_and_the_backlog_follows_without_delay(
    spark_tells: bool,
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    send: Send,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit also counts bytes, even if Spark does not report record sizes."""
    if not spark_tells:
        monkeypatch.setattr(flow_loop, "observed", lambda records: (records, lambda: None))
    topic = make_topic(1)
    send(topic, orders(0, range(25)))
    source = {
        "topics": [topic],
        "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
        "max_records_per_batch": 10,
        "max_bytes_per_batch": 140,  # about five of these
        "start": {"offsets": {topic: {"0": 5}}},
    }
    pipeline = make_pipeline(topic, source=source)
    assert pipeline.run() == []
    assert [batch.rows for batch in pipeline.batches()] == [10, 5, 5]
    assert pipeline.places() == places(0, range(5, 25))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_around_the_tables_commit_leaves_it_exact(
    moment: str,
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    send: Send,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = make_topic(1)
    send(topic, orders(0, range(20)))
    pipeline = make_pipeline(topic)
    commit = DeltaSink.commit

    def killed(self: DeltaSink, batch: BatchInfo, written: Sequence[WrittenFile]) -> CommittedBatch:
        if moment == "after":
            commit(self, batch, written)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(DeltaSink, "commit", killed)
        with pytest.raises(Killed):
            pipeline.loop().step()
    assert pipeline.log.committed(pipeline.flow.id) == {}
    send(topic, orders(0, range(20, 25)))
    again = pipeline.loop()
    assert again.step() is LoopStep.BATCH
    assert again.step() is LoopStep.CAUGHT_UP
    assert pipeline.places() == places(0, range(25))
    assert pipeline.log.committed(pipeline.flow.id) == {TopicPartition(topic, 0): 25}


def test_sigterm_finishes_the_batch(
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    send: Send,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = make_topic(1)
    send(topic, orders(0, range(10)))
    pipeline = make_pipeline(topic)
    commit = DeltaSink.commit

    def told(self: DeltaSink, batch: BatchInfo, written: Sequence[WrittenFile]) -> CommittedBatch:
        os.kill(os.getpid(), signal.SIGTERM)
        return commit(self, batch, written)

    monkeypatch.setattr(DeltaSink, "commit", told)
    assert pipeline.application(until_caught_up=False).run() == []
    assert pipeline.places() == places(0, range(10))
    assert pipeline.log.committed(pipeline.flow.id) == {TopicPartition(topic, 0): 10}
    assert pipeline.events[-1].kind is EventKind.STOPPED


def test_a_bad_record_stops_a_flow_set_to_fail_and_nothing_is_written(
    make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic = make_topic(1)
    send(topic, [*orders(0, range(3)), (0, None, BROKEN)])
    pipeline = make_pipeline(topic)  # on_error: fail is the default
    (failed,) = pipeline.run()
    assert f"{topic}-0, offset 3: NotJson" in str(failed)
    assert pipeline.rows() == []
    assert pipeline.events[-1].kind is EventKind.FAILED


def test_a_merge_keeps_the_last_row_of_a_key_and_null_deletes(
    tmp_path: Path, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic = make_topic(1)
    table = str(tmp_path / "table")
    pipeline = make_pipeline(
        topic,
        source={
            "topics": [topic],
            "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
            "key": {"format": "json", "schema": "id BIGINT"},
        },
        transform=[],
        sink={"format": "delta", "table": table, "mode": "merge", "key": ["id"]},
    )

    def change(number: int, amount: float | None) -> Record:
        value = None if amount is None else json.dumps({"id": number, "amount": amount}).encode()
        return (0, json.dumps({"id": number}).encode(), value)

    send(topic, [change(1, 1), change(2, 1), change(1, 2), change(3, 1), change(3, None)])
    assert pipeline.run() == []
    assert {row["id"]: row["amount"] for row in pipeline.rows()} == {1: 2.0, 2: 1.0}
    send(topic, [change(2, None), change(1, 3), change(4, None), change(4, 9)])
    assert pipeline.run() == []
    assert {row["id"]: row["amount"] for row in pipeline.rows()} == {1: 3.0, 4: 9.0}


def test_json_values_may_have_avro_keys(
    tmp_path: Path, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    """Tasks decode the keys and keep the values that other tasks decoded."""
    topic = make_topic(1)
    schema = tmp_path / "key.avsc"
    schema.write_text('{"type": "record", "name": "k", "fields": [{"name": "n", "type": "long"}]}')
    pipeline = make_pipeline(
        topic,
        source={
            "topics": [topic],
            "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
            "key": {"format": "avro", "schema": str(schema)},
        },
        transform=[{"sql": "SELECT id, n FROM source"}],
    )
    send(topic, [(0, bytes([2 * number]), order(number)) for number in range(5)])  # zigzag
    assert pipeline.run() == []
    assert [(row["id"], row["n"]) for row in pipeline.rows()] == [(n, n) for n in range(5)]


def test_raw_keys_are_columns_next_to_sql(
    make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic = make_topic(1)
    pipeline = make_pipeline(
        topic,
        source={
            "topics": [topic],
            "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
            "key": {"format": "raw", "type": "string", "column": "who"},
        },
        transform=[{"sql": "SELECT id, who FROM source"}],
    )
    send(topic, orders(0, range(2)))
    assert pipeline.run() == []
    assert [(row["id"], row["who"]) for row in pipeline.rows()] == [(0, "k"), (1, "k")]


def test_added_partitions_are_read_from_their_first_record(
    bootstrap: str, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic = make_topic(1)
    send(topic, orders(0, range(5)))
    source = {
        "topics": [topic],
        "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
        "start": "latest",
    }
    pipeline = make_pipeline(topic, source=source)
    assert pipeline.run() == []  # no row is written yet; the start is stored
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(timeout=60)
    send(topic, [*orders(0, range(5, 8)), *orders(1, range(4))])
    assert pipeline.run() == []
    assert pipeline.places() == [*places(0, range(5, 8)), *places(1, range(4))]


def test_a_partition_added_while_the_checkpoint_is_lost_is_read_from_its_start(
    tmp_path: Path,
    bootstrap: str,
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    send: Send,
) -> None:
    """A new checkpoint starts at the latest offsets; the table lists its known partitions."""
    topic = make_topic(1)
    source = {
        "topics": [topic],
        "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
        "start": "latest",
    }
    pipeline = make_pipeline(topic, source=source)
    assert pipeline.run() == []
    send(topic, orders(0, range(3)))
    assert pipeline.run() == []
    shutil.rmtree(tmp_path / "checkpoint")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(timeout=60)
    send(topic, [*orders(0, range(3, 5)), *orders(1, range(4))])
    assert pipeline.run() == []
    assert pipeline.places() == [*places(0, range(5)), *places(1, range(4))]


def test_a_failed_flow_does_not_stop_the_others(
    tmp_path: Path, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    good, poisoned = make_topic(1), make_topic(1)
    send(good, orders(0, range(4)))
    send(poisoned, [(0, None, BROKEN)])
    value = {"format": "json", "schema": "id BIGINT, amount DOUBLE"}
    flows = [
        {
            "name": name,
            "source": {"topics": [topic], "value": value},
            "transform": [{"sql": SQL}],
            "sink": {"format": "delta", "table": str(tmp_path / table)},
        }
        for name, topic, table in (("one", good, "table"), ("two", poisoned, "other"))
    ]
    pipeline = make_pipeline(good, flows=flows, source=None, sink=None, transform=[])
    (failed,) = pipeline.run()
    assert failed.flow == f"{pipeline.spec.pipeline}.two"
    assert pipeline.places() == places(0, range(4))
