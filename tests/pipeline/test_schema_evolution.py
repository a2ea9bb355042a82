"""With an inferred schema no JSON field vanishes: it becomes a column, or the run reports it."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.application.history import RunHistory
from headrace.pipeline.runner.events import EventKind
from support.pipelines.delta_pipeline import MakePipeline, Pipeline, Send
from support.wire.topics import MakeTopic

pytestmark = pytest.mark.xdist_group("spark")

SOURCE = {"value": {"format": "json"}}
STEPS = {"written by the tasks": [], "through SQL": [{"sql": "SELECT * FROM source"}]}


def values(*records: object) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(0, None, json.dumps(each).encode()) for each in records]


def messages(pipeline: Pipeline, kind: EventKind) -> list[str]:
    return [event.message for event in pipeline.events if event.kind is kind]


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
def test_a_new_field_becomes_a_column(
    steps: list[object],
    tmp_path: Path,
    make_topic: MakeTopic,
    make_pipeline: MakePipeline,
    send: Send,
) -> None:
    topic = make_topic()
    pipeline = make_pipeline(topic, source={"topics": [topic], **SOURCE}, transform=steps)
    send(topic, values({"id": 1}, {"id": 2}))
    assert pipeline.run() == []
    send(topic, values({"id": 3, "country": "DE"}, {"id": 4, "country": None}, {"id": 5, "n": 7}))
    assert pipeline.run() == []
    found = sorted(pipeline.rows(), key=lambda row: row["id"])
    assert found == [
        {"id": 1, "country": None, "n": None},
        {"id": 2, "country": None, "n": None},
        {"id": 3, "country": "DE", "n": None},
        {"id": 4, "country": None, "n": None},
        {"id": 5, "country": None, "n": 7},
    ]
    (said,) = messages(pipeline, EventKind.SCHEMA)
    assert "country string" in said
    assert "n bigint" in said
    kinds = [event["kind"] for event in RunHistory(tmp_path / "checkpoint" / "history").events()]
    assert "schema" in kinds
    again = len(pipeline.events)
    send(topic, values({"id": 6, "country": "FR"}))
    assert pipeline.run() == []
    assert all(event.kind is not EventKind.SCHEMA for event in pipeline.events[again:])
    assert {"id": 6, "country": "FR", "n": None} in pipeline.rows()


def test_a_field_that_cannot_be_a_column_is_counted_and_reported(
    tmp_path: Path, make_topic: MakeTopic, make_pipeline: MakePipeline, send: Send
) -> None:
    topic = make_topic()
    pipeline = make_pipeline(topic, source={"topics": [topic], **SOURCE}, transform=[])
    send(topic, values({"id": 1, "at": {"city": "Bonn"}}))
    assert pipeline.run() == []
    send(topic, values(*({"id": n, "at": {"city": "Ulm", "zip": "8"}} for n in (2, 3)), {"ID": 4}))
    assert pipeline.run() == []
    assert len(pipeline.rows()) == 4
    (said,) = messages(pipeline, EventKind.WARNING)
    assert "at.zip (2 records), ID (1 records)" in said
    events = RunHistory(tmp_path / "checkpoint" / "history").events()
    assert [event["message"] for event in events if event["kind"] == "warning"] == [said]
