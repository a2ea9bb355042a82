"""Flows whose tasks know the size of their input skip Spark's check of every row."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.batch.json_read_task import read_and_parse
from headrace.pipeline.runner import flow_loop
from headrace.pipeline.runner.events import EventKind
from headrace.pipeline.source.byte_limit import ByteLimit
from headrace.pipeline.spark.unmetered_session import (
    BYTES,
    UNLIMITED,
    UnmeteredSession,
    can_run_unmetered,
    open_unmetered_session,
)
from support.pipelines.delta_pipeline import MakePipeline, Send
from support.wire.topics import MakeTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def is_quick(**changes: object) -> bool:
    spec: dict[str, object] = {
        "pipeline": "p",
        "source": {"topics": ["t"], "value": {"format": "json", "schema": "a ARRAY<INT>"}},
        "sink": {"format": "delta", "table": "t"},
    }
    return can_run_unmetered(parse_spec(json.dumps({**spec, **changes})).resolved()[0])


def test_only_flows_with_rows_shaped_like_records_use_the_quick_session(tmp_path: Path) -> None:
    assert is_quick()
    assert is_quick(transform=[{"sql": "SELECT a, 1 AS b FROM source WHERE a IS NOT NULL"}])
    assert not is_quick(transform=[{"sql": "SELECT explode(a) AS b FROM source"}])
    assert not is_quick(transform=[{"sql": "SELECT count(*) AS n FROM source", "scope": "batch"}])
    assert not is_quick(transform=[{"python": f"{tmp_path}/step.py:step"}])
    assert not is_quick(sink={"format": "topic", "topic": "out"})
    merge = {"format": "delta", "table": "t", "mode": "merge", "key": ["a"]}
    assert not is_quick(sink=merge)


def test_only_the_copied_session_has_no_byte_limit(spark: "SparkSession") -> None:
    usual = spark.conf.get(BYTES)
    spark.range(3).createOrReplaceTempView("seen_by_the_copy")
    quick = open_unmetered_session(spark)
    assert quick is not None
    assert quick.spark.conf.get(BYTES) == str(UNLIMITED)
    assert quick.spark.table("seen_by_the_copy").count() == 3
    assert spark.conf.get(BYTES) == usual


def test_a_configured_limit_is_kept(spark: "SparkSession") -> None:
    usual = spark.conf.get(BYTES)
    assert usual is not None
    spark.conf.set(BYTES, "1000000")
    try:
        assert open_unmetered_session(spark) is None
    finally:
        spark.conf.set(BYTES, usual)


def test_oversized_records_are_read_again_row_by_row(
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    send: Send,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each record is written once, and no failure is reported."""
    bound = ByteLimit(records=10, size_bytes=100)
    bounds: list[ByteLimit | None] = []

    def noted(*args: Any, **kwargs: Any) -> "DataFrame":
        bounds.append(kwargs["bound"])
        return read_and_parse(*args, **kwargs)

    monkeypatch.setattr(
        flow_loop, "open_unmetered_session", lambda spark: UnmeteredSession(spark, bound)
    )
    monkeypatch.setattr(flow_loop, "read_and_parse", noted)
    topic = make_topic(1)
    source = {
        "topics": [topic],
        "value": {"format": "json", "schema": "id BIGINT, amount DOUBLE"},
        "max_records_per_batch": 10,
    }
    pipeline = make_pipeline(topic, source=source)
    send(topic, [(0, None, b'{"id": %d, "amount": 1}' % at) for at in range(20)])
    assert pipeline.run() == []
    assert sorted(row["id"] for row in pipeline.rows()) == list(range(20))
    assert bounds == [bound, None, None]
    told = {event.kind for event in pipeline.events}
    assert not told & {EventKind.RETRY, EventKind.WARNING, EventKind.FAILED}
