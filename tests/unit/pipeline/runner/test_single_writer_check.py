"""A second pipeline on the same topic and table is rejected before it writes."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.runner.flow_factory import open_sink
from headrace.pipeline.runner.single_writer_check import check_sole_writer
from headrace.pipeline.sinks.table_sink import BatchInfo, SinkError, TableSink
from headrace.pipeline.spec.flow import Flow

FORMATS = ("delta", "iceberg", "parquet")
SCHEMA = pa.schema([("id", pa.int64())])


def flow_of(folder: Path, form: str, name: str, topic: str = "orders", **sink: str) -> Flow:
    table = "shop.orders" if form == "iceberg" else str(folder / "table")
    where = {"warehouse": str(folder / "warehouse")} if form == "iceberg" else {}
    spec = {
        "pipeline": name,
        "source": {"topics": [topic], "value": {"format": "json", "schema": "id BIGINT"}},
        "sink": {"format": form, "table": table, **where, **sink},
        "checkpoint": str(folder / name),
    }
    return parse_spec(json.dumps(spec)).resolved()[0]


def written(flow: Flow, topic: str = "orders", batches: int = 1) -> TableSink:
    """The flow's table, after empty batches of the topic."""
    sink = open_sink(flow, {})
    sink.prepare(SCHEMA)
    for number in range(batches):
        at = OffsetRange(topic, 0, number, number + 1)
        sink.commit(BatchInfo(flow.id, number, (at,)), [])
    return sink


@pytest.mark.parametrize("form", FORMATS)
def test_another_pipeline_name_on_the_same_topic_and_table_is_rejected(
    tmp_path: Path, form: str
) -> None:
    written(flow_of(tmp_path, form, "first"))
    second = flow_of(tmp_path, form, "second")
    with pytest.raises(SinkError, match=r"records of topic orders, written by pipeline first;"):
        check_sole_writer(second, open_sink(second, {}), [second.id])


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_name_other_topics_siblings_and_backfills_are_accepted(
    tmp_path: Path, form: str
) -> None:
    first = flow_of(tmp_path, form, "first")
    sink = written(first)
    assert check_sole_writer(first, sink, [first.id]) is None
    other = flow_of(tmp_path, form, "second", topic="returns")
    assert check_sole_writer(other, open_sink(other, {}), [other.id]) is None
    second = flow_of(tmp_path, form, "second")
    assert check_sole_writer(second, open_sink(second, {}), ["first", "second"]) is None
    again = flow_of(tmp_path, form, "first.backfill-may")
    assert check_sole_writer(again, open_sink(again, {}), ["first"]) is None


@pytest.mark.parametrize("form", FORMATS)
def test_the_sink_setting_can_allow_several_writers(tmp_path: Path, form: str) -> None:
    written(flow_of(tmp_path, form, "first"))
    second = flow_of(tmp_path, form, "second", other_pipelines="allow")
    assert check_sole_writer(second, open_sink(second, {}), [second.id]) is None


def test_a_pipeline_that_already_shares_a_table_gets_a_warning(tmp_path: Path) -> None:
    written(flow_of(tmp_path, "delta", "first"))
    second = flow_of(tmp_path, "delta", "second")
    warning = check_sole_writer(second, written(second), [second.id])
    assert warning is not None
    assert "pipeline first" in warning


def test_writers_are_read_from_a_checkpoint_of_the_delta_log(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    first = flow_of(tmp_path, "delta", "first")
    written(first, batches=3)
    DeltaTable(str(tmp_path / "table")).create_checkpoint()
    log = tmp_path / "table" / "_delta_log"
    for commit in sorted(log.glob("*.json")):
        if commit.name[0].isdigit():
            commit.unlink()
    assert open_sink(first, {}).writers() == {"first": {"orders"}}


def test_a_partition_of_the_topic_is_named_in_the_commit(tmp_path: Path) -> None:
    sink = written(flow_of(tmp_path, "delta", "first"))
    held = sink.last_commit("first", [TopicPartition("orders", 0)])
    assert held is not None
    assert held.offsets == {TopicPartition("orders", 0): 1}
