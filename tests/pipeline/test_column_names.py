"""Columns of any name: those that have syntax in them, and those that only differ in case."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.testing.external import ExternalBroker
from support.pipelines.delta_pipeline import MakePipeline, Send
from support.wire.topics import MakeTopic

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow, pytest.mark.timeout(600)]

NAMES = ("a.b", "c`d", "e f", "ü", "")
SCHEMA = ", ".join("`" + name.replace("`", "``") + "` BIGINT" for name in NAMES)
ROW = {name: at for at, name in enumerate(NAMES)}


@pytest.mark.parametrize("steps", [[], [{"sql": "SELECT * FROM source WHERE `a.b` = 0"}]])
def test_columns_keep_any_name(
    make_topic: MakeTopic, send: Send, make_pipeline: MakePipeline, steps: list[dict[str, str]]
) -> None:
    topic = make_topic(1)
    send(topic, [(0, None, json.dumps(ROW).encode())])
    value = {"format": "json", "schema": SCHEMA}
    pipeline = make_pipeline(topic, source={"topics": [topic], "value": value}, transform=steps)
    assert pipeline.run() == []
    assert pipeline.rows() == [ROW]


def test_rows_are_merged_by_columns_of_any_name(
    make_topic: MakeTopic, send: Send, make_pipeline: MakePipeline, tmp_path: Path
) -> None:
    topic = make_topic(1)
    value = {"format": "json", "schema": SCHEMA}
    sink = {
        "format": "delta",
        "table": str(tmp_path / "table"),
        "mode": "merge",
        "key": ["a.b", "c`d"],
    }
    pipeline = make_pipeline(
        topic, source={"topics": [topic], "value": value}, transform=[], sink=sink
    )
    for number in (5, 6):
        send(topic, [(0, None, json.dumps({**ROW, "ü": number}).encode())])
        assert pipeline.run() == []
    assert pipeline.rows() == [{**ROW, "ü": 6}]


def test_a_topic_receives_columns_of_any_name(
    make_topic: MakeTopic,
    send: Send,
    make_pipeline: MakePipeline,
    bootstrap: str,
    new_name: Callable[[], str],
) -> None:
    topic, out = make_topic(1), new_name()
    send(topic, [(0, None, json.dumps(ROW).encode())])
    value = {"format": "json", "schema": SCHEMA}
    pipeline = make_pipeline(
        topic,
        source={"topics": [topic], "value": value},
        transform=[],
        sink={"format": "topic", "topic": out},
    )
    assert pipeline.run() == []
    broker = ExternalBroker(bootstrap)
    (found,) = broker.headrace.consume(out, 1, read_committed=True)
    assert json.loads(found.value or b"") == ROW
    broker.close()


def test_one_record_with_different_case_does_not_stop_schema_inference(
    make_topic: MakeTopic, send: Send, make_pipeline: MakePipeline
) -> None:
    topic = make_topic(1)
    send(
        topic, [(0, None, b'{"ID": 1}'), (0, None, b'{"id": 2}'), (0, None, b'{"id": 3, "Id": 4}')]
    )
    source = {"topics": [topic], "value": {"format": "json"}}
    pipeline = make_pipeline(topic, source=source, transform=[])
    assert pipeline.run() == []
    assert sorted(row["id"] or 0 for row in pipeline.rows()) == [0, 2, 3]


def test_reserved_column_names_are_rejected_with_advice(
    make_topic: MakeTopic, send: Send, make_pipeline: MakePipeline
) -> None:
    topic = make_topic(1)
    send(topic, [(0, None, b'{"id": 1, "_error": "x"}')])
    source = {"topics": [topic], "value": {"format": "json"}}
    pipeline = make_pipeline(topic, source=source, transform=[])
    (failed,) = pipeline.run()
    assert "a column cannot be named _error" in str(failed)
