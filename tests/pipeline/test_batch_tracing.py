"""A batch of a pipeline gets a span with its phases, and links to the traces of its records."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from headrace.pipeline import FlowSpec, Json, Parquet, Pipeline, TopicSource
from headrace.pipeline.runner.batch_tracing import BatchTracing
from headrace.pipeline.source.settings import ReadSettings
from support.wire.topics import MakeTopic
from support.wire.trace_receiver import TraceReceiver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def test_a_batch_is_linked_to_the_traces_of_its_records(
    tmp_path: Path,
    bootstrap: str,
    make_topic: MakeTopic,
    new_name: Callable[[], str],
    spark: "SparkSession",
) -> None:
    topic = make_topic(2)
    traces = [uuid4().hex for _ in range(2)]
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, trace in enumerate(traces):
        headers = [("traceparent", f"00-{trace}-00f067aa0ba902b7-01".encode())]
        producer.produce(topic, b'{"id": 1}', partition=partition, headers=headers)
    assert producer.flush(60) == 0
    pipeline = Pipeline(
        pipeline=new_name(),
        checkpoint=str(tmp_path / "checkpoint"),
        flows=(
            FlowSpec(
                name="rows",
                source=TopicSource(topics=(topic,), value=Json(schema="id BIGINT")),
                sink=Parquet(table=str(tmp_path / "table")),
            ),
        ),
    )
    with TraceReceiver() as receiver:
        flow = f"{pipeline.pipeline}.rows"
        tracing = BatchTracing(receiver.endpoint, {flow: ReadSettings(bootstrap)})
        pipeline.run(bootstrap, until_caught_up=True, spark=spark, on_event=tracing)
        tracing.close()
        spans = {span.name: span for span in receiver.spans}
    (batch,) = [span for span in receiver.spans if span.name.endswith(" batch")]
    assert sorted(batch.links) == sorted(traces)
    assert batch.attributes["headrace.pipeline.batch.rows"] == 2
    assert batch.service == "headrace-pipeline"
    assert {"plan", "prepare", "write", "commit"} <= set(spans)
    assert all(
        span.parent_id == batch.span_id and span.trace_id == batch.trace_id
        for span in receiver.spans
        if span is not batch
    )
