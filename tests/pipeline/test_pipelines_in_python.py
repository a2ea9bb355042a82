"""Pipelines in Python code: created, validated and run, with table maintenance."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline import (
    Delta,
    FlowSpec,
    Iceberg,
    Json,
    Maintenance,
    Parquet,
    Pipeline,
    PipelineFailed,
    SpecErrors,
    SqlStep,
    TopicSource,
)
from headrace.pipeline.runner.events import Event, EventKind
from support.pipelines.delta_pipeline import Send
from support.pipelines.outputs import all_parquet_rows, delta_rows, iceberg_rows, parquet_rows
from support.wire.topics import MakeTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

RECORDS = 8
A_BATCH = 4
SQL = "SELECT id, _record.offset AS o FROM source"


def source(topic: str) -> TopicSource:
    value = Json(schema="id BIGINT")
    return TopicSource(topics=(topic,), value=value, max_records_per_batch=A_BATCH)


def test_tables_are_maintained_during_a_run_and_hold_every_row_once(
    tmp_path: Path,
    bootstrap: str,
    make_topic: MakeTopic,
    new_name: Callable[[], str],
    send: Send,
    spark: "SparkSession",
) -> None:
    """Compaction and vacuum run after every batch; one file holds all rows."""
    topic = make_topic(1)
    send(topic, [(0, None, json.dumps({"id": n}).encode()) for n in range(RECORDS)])
    always = Maintenance(compact_every=0.001, vacuum_every=0.001, retain=0.001)
    tables = {
        "delta": Delta(table=str(tmp_path / "delta"), maintenance=always),
        "iceberg": Iceberg(table="lake.t", warehouse=str(tmp_path / "ice"), maintenance=always),
        "parquet": Parquet(table=str(tmp_path / "parquet"), maintenance=always),
    }
    pipeline = Pipeline(
        pipeline=new_name(),
        flows=tuple(
            FlowSpec(name=name, source=source(topic), transform=(SqlStep(sql=SQL),), sink=table)
            for name, table in tables.items()
        ),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    pipeline.validate()
    events: list[Event] = []
    done = pipeline.run(bootstrap, until_caught_up=True, spark=spark, on_event=events.append)
    assert done.caught_up
    assert (done.rows, done.batches) == (3 * RECORDS, 3 * RECORDS // A_BATCH)
    for name in tables:
        flow = done.flows[f"{pipeline.pipeline}.{name}"]
        assert flow.offsets == {TopicPartition(topic, 0): RECORDS}
        upkeep = [
            each for each in events if each.flow == flow.flow and each.kind is EventKind.UPKEEP
        ]
        assert {each.message.partition(":")[0] for each in upkeep} == {"compact", "vacuum"}
    wanted = [(n, n) for n in range(RECORDS)]
    for rows in (
        delta_rows(tmp_path / "delta"),
        iceberg_rows(tmp_path / "ice", "lake.t"),
        parquet_rows(tmp_path / "parquet"),
        all_parquet_rows(tmp_path / "parquet"),
    ):
        assert sorted((row["id"], row["o"]) for row in rows) == wanted
    assert len(list((tmp_path / "parquet").glob("*.parquet"))) == 1


def test_a_yaml_spec_runs_from_python_and_reports_its_result_or_error(
    tmp_path: Path,
    bootstrap: str,
    make_topic: MakeTopic,
    new_name: Callable[[], str],
    send: Send,
    spark: "SparkSession",
) -> None:
    topic = make_topic(1)
    send(topic, [(0, None, b'{"id": 1}'), (0, None, b"broken")])
    name = new_name()
    spec = tmp_path / "pipeline.yaml"
    spec.write_text(f"""
pipeline: {name}
source: {{topics: [{topic}], value: {{format: json, schema: id BIGINT}}}}
sink: {{format: delta, table: table}}
checkpoint: checkpoint
""")
    with pytest.raises(PipelineFailed, match="offset 1: NotJson") as failed:
        Pipeline.load(spec).run(bootstrap, until_caught_up=True, spark=spark)
    assert failed.value.summary.rows == 0
    spec.write_text(spec.read_text() + "on_error: skip\n")
    done = Pipeline.load(spec).run(bootstrap, until_caught_up=True, spark=spark)
    flow = done.flows[name]
    assert (flow.rows, flow.bad, flow.skipped, flow.lag) == (1, {"NotJson": 1}, 1, 0)
    assert f"{name}: 1 rows in 1 batch, 1 skipped" in str(done)
    assert [row["id"] for row in delta_rows(tmp_path / "table")] == [1]


def test_a_run_rejects_a_python_step_that_combines_rows_unless_its_scope_is_a_batch(
    tmp_path: Path,
    bootstrap: str,
    make_topic: MakeTopic,
    new_name: Callable[[], str],
    send: Send,
    spark: "SparkSession",
) -> None:
    """The schema is inferred, so only the run can reject the step; nothing is written."""
    topic = make_topic(1)
    send(topic, [(0, None, b'{"id": 1}'), (0, None, b'{"id": 1}')])
    steps = tmp_path / "steps.py"
    steps.write_text("def once(rows):\n    return rows.dropDuplicates(['id'])\n")
    spec = tmp_path / "pipeline.yaml"
    spec.write_text(f"""
pipeline: {new_name()}
source: {{topics: [{topic}], value: {{format: json}}}}
transform:
  - python: steps.py:once
sink: {{format: delta, table: table}}
checkpoint: checkpoint
""")
    with pytest.raises(PipelineFailed, match=r"a removal of duplicates: .* scope: batch"):
        Pipeline.load(spec).run(bootstrap, until_caught_up=True, spark=spark)
    assert not (tmp_path / "table").exists()
    spec.write_text(spec.read_text().replace("once\n", "once\n    scope: batch\n"))
    Pipeline.load(spec).run(bootstrap, until_caught_up=True, spark=spark)
    assert [row["id"] for row in delta_rows(tmp_path / "table")] == [1]


def test_a_column_missing_from_the_schema_is_reported_before_the_run(tmp_path: Path) -> None:
    pipeline = Pipeline(
        pipeline="p",
        source=TopicSource(topics=("t",), value=Json(schema="id BIGINT")),
        sink=Delta(table=str(tmp_path / "t"), partition_by=("day",)),
        checkpoint=str(tmp_path / "c"),
    )
    with pytest.raises(SpecErrors, match="day"):
        pipeline.validate()
    with pytest.raises(SpecErrors, match="day"):
        pipeline.run("127.0.0.1:1")
