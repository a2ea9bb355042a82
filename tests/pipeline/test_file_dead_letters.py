"""Each bad line of a file and each row that breaks a rule becomes one dead letter."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.pipeline.application.application import Application, RunSettings
from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.dead_letters.headers import Facts, facts_of, own_headers
from headrace.pipeline.inflow.inflow_loop import InflowLoop
from headrace.pipeline.inflow.inputs import open_input
from headrace.pipeline.producer import TransactionalProducer
from headrace.pipeline.runner.events import Event, EventKind
from headrace.pipeline.runner.flow_factory import open_sink
from headrace.pipeline.runner.flow_retries import FlowFailed
from headrace.pipeline.sinks.topic_sink import TopicSink
from headrace.pipeline.spec import PipelineSpec
from headrace.testing.external import ExternalBroker
from headrace.testing.helper import Headrace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow, pytest.mark.timeout(600)]


class Killed(BaseException):
    """Simulates a killed process: no handler catches it."""


class Inflow:
    """A spec over a folder, its topics, and runs of it."""

    def __init__(
        self, bootstrap: str, spark: "SparkSession", home: Path, name: str, helper: Headrace
    ) -> None:
        self.name = name
        self.out, self.aside = helper.create_topic(partitions=2), f"{name}.dlq"
        self.folder = home / "in"
        self.folder.mkdir()
        self._home, self._bootstrap, self._spark, self._helper = home, bootstrap, spark, helper

    def spec(self, source: dict[str, object], **parts: object) -> PipelineSpec:
        spec: dict[str, object] = {
            "pipeline": self.name,
            "source": source,
            "sink": {"format": "topic", "topic": self.out, "key": ["id"]},
            "dead_letter": {"topic": self.aside},
            "checkpoint": str(self._home / "checkpoint"),
            "trigger": "once",
        }
        return parse_spec(json.dumps({**spec, **parts}))

    def begin(self, source: dict[str, object]) -> TopicSink:
        """A run that dies in its first batch, as the caller has arranged; its sink stays open."""
        (flow,) = self.spec(source).resolved()
        sink = open_sink(flow, {"bootstrap.servers": self._bootstrap})
        assert isinstance(sink, TopicSink)
        loop = InflowLoop(
            flow, open_input(flow.source), sink, self._spark, lambda _: None, threading.Event()
        )
        with pytest.raises(Killed):
            loop.run()
        return sink

    def run(self, source: dict[str, object], **parts: object) -> Event:
        """Until everything is read; the last batch's event."""
        told: list[Event] = []
        settings = RunSettings(kafka={"bootstrap.servers": self._bootstrap})
        whole = self.spec(source, **parts)
        assert Application(whole, settings, [told.append], spark=self._spark).run() == []
        return next(each for each in reversed(told) if each.kind is EventKind.BATCH)

    def fails(self, source: dict[str, object]) -> list[FlowFailed]:
        settings = RunSettings(kafka={"bootstrap.servers": self._bootstrap})
        return Application(self.spec(source), settings, spark=self._spark).run()

    def values(self, count: int) -> list[dict[str, Any]]:
        return [json.loads(value) for value, _ in self._records(self.out, count)]

    def ids(self, count: int) -> list[int]:
        return sorted(each["id"] for each in self.values(count))

    def letters(self, count: int) -> list[tuple[bytes, Facts]]:
        found = self._records(self.aside, count)
        return sorted(found, key=lambda each: (each[1].file, each[1].line, each[1].row))

    def _records(self, topic: str, count: int) -> list[tuple[bytes, Facts]]:
        self._helper.consume(topic, count, read_committed=True)
        got = self._helper.consume(topic, read_committed=True)
        assert all(own_headers(each.headers) == () for each in got)
        return [(each.value or b"", facts_of(each.headers)) for each in got]


@pytest.fixture
def inflow(
    bootstrap: str, spark: "SparkSession", tmp_path: Path, new_name: Callable[[], str]
) -> Iterator[Inflow]:
    broker = ExternalBroker(bootstrap)
    yield Inflow(bootstrap, spark, tmp_path, new_name(), broker.headrace)
    broker.close()


def test_bad_json_lines_are_dead_lettered_once_despite_a_crash_around_the_commit(
    inflow: Inflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Good and bad lines of a batch share one transaction, so neither is lost or duplicated."""
    bad = [b'{"id": ', b'{"id": 7} x', b'{"id": "seven"}', b'\xff{"id": 7}', b'{"id": ']
    lines = [b'{"id": 0}', bad[0], b"", bad[1], bad[2], b'{"id": 1}', bad[3], bad[4]]
    file = inflow.folder / "a b.json"
    file.write_bytes(b"\n".join(lines))
    source: dict[str, object] = {
        "files": str(inflow.folder),
        "format": "json",
        "schema": "id BIGINT",
    }
    commit = TransactionalProducer.commit

    def killed_before(self: TransactionalProducer) -> None:
        raise Killed

    def killed_after(self: TransactionalProducer) -> None:
        commit(self)
        raise Killed

    sinks = []
    for ending in (killed_before, killed_after):
        monkeypatch.setattr(TransactionalProducer, "commit", ending)
        sinks.append(inflow.begin(source))
    monkeypatch.setattr(TransactionalProducer, "commit", commit)
    (inflow.folder / "b.json").write_bytes(b'[]\n{"id": 2}\n')
    last = inflow.run(source)
    assert (last.batch_id, last.rows, last.dead_letters) == (1, 1, 1)
    assert last.bad == {"SchemaMismatch": 1}
    assert inflow.ids(3) == [0, 1, 2]
    letters = inflow.letters(6)
    assert [(value, facts.line, facts.error) for value, facts in letters] == [
        (bad[0], 2, "NotJson"),
        (bad[1], 4, "NotJson"),
        (bad[2], 5, "SchemaMismatch"),
        (bad[3], 7, "InvalidUtf8"),
        (bad[4], 8, "NotJson"),
        (b"[]", 1, "SchemaMismatch"),
    ]
    assert letters[2][1].message.endswith('id: expected bigint, found string "seven"')
    first = letters[0][1]
    assert (first.file, first.pipeline, first.batch_id) == (str(file), inflow.name, 0)
    assert (first.topic, first.place) == ("", f"{file} line 2")
    assert first.timestamp_ms == pytest.approx(file.stat().st_mtime * 1000, abs=1)
    for sink in sinks:
        sink.close()


def test_a_line_with_a_number_for_a_string_or_a_time_is_dead_lettered(inflow: Inflow) -> None:
    bad = [b'{"id":1,"at":5}', b'{"id":2,"s":{"t":7}}', b'{"id":3,"tags":["a",1]}']
    good = b'{"id":4,"at":"2026-01-31T00:00:00Z","s":{"t":"7"},"tags":["1"]}'
    (inflow.folder / "a.json").write_bytes(b"\n".join([*bad, good]))
    source: dict[str, object] = {
        "files": str(inflow.folder),
        "format": "json",
        "schema": "id BIGINT, at TIMESTAMP, s STRUCT<t: STRING>, tags ARRAY<STRING>",
    }
    assert inflow.run(source).bad == {"SchemaMismatch": 3}
    assert inflow.ids(1) == [4]
    letters = inflow.letters(3)
    assert [value for value, _ in letters] == bad
    assert [facts.message.partition("schema: ")[2] for _, facts in letters] == [
        "at: expected timestamp, found number 5",
        "s.t: expected string, found number 7",
        "tags[1]: expected string, found number 1",
    ]


def test_a_batch_of_only_bad_lines_ends_with_its_dead_letters(inflow: Inflow) -> None:
    (inflow.folder / "a.json").write_text("nonsense\n")
    source: dict[str, object] = {
        "files": str(inflow.folder),
        "format": "json",
        "schema": "id BIGINT",
    }
    assert inflow.run(source).dead_letters == 1
    (inflow.folder / "b.json").write_text('{"id": 1}\n')
    assert inflow.run(source).dead_letters == 0
    assert inflow.ids(1) == [1]
    assert len(inflow.letters(1)) == 1


@pytest.mark.parametrize("schema", ["id BIGINT, note STRING", None])
def test_bad_csv_lines_and_rows_that_break_a_rule_are_dead_lettered(
    inflow: Inflow, schema: str | None
) -> None:
    """A parsed row has no line, so its dead letter holds the row as JSON."""
    (inflow.folder / "a.csv").write_text('id,note\n1,"a, b"\n2,b,c,d\n-3,e\n4,f\n5\n')
    source: dict[str, object] = {"files": str(inflow.folder), "format": "csv"}
    event = inflow.run(
        source if schema is None else source | {"schema": schema},
        expect=[{"name": "positive", "sql": "id > 0", "on_fail": "dead_letter"}],
    )
    assert event.bad == {"NotCsv": 2, "ExpectationFailed": 1}
    assert inflow.ids(2) == [1, 4]
    broken, *lines = inflow.letters(3)
    assert [(value, facts.line) for value, facts in lines] == [(b"2,b,c,d", 3), (b"5", 6)]
    assert json.loads(broken[0]) == {"id": -3, "note": "e"}
    assert (broken[1].error, broken[1].line) == ("ExpectationFailed", -1)


def test_a_step_that_reads_no_csv_column_still_finds_bad_lines(
    inflow: Inflow,
) -> None:
    (inflow.folder / "a.csv").write_text("id\n1\nx\n")
    event = inflow.run(
        {"files": str(inflow.folder), "format": "csv", "schema": "id BIGINT"},
        transform=[{"sql": "SELECT 1 AS id FROM source"}],
        on_error="skip",
    )
    assert (event.rows, event.skipped, event.dead_letters) == (1, 1, 0)


def test_lines_that_break_a_rule_are_dead_lettered_unchanged(inflow: Inflow) -> None:
    line = b'{"id": -1,  "more": [1, 2]}'
    (inflow.folder / "a.json").write_bytes(b'{"id": 1}\n' + line)
    inflow.run(
        {"files": str(inflow.folder), "format": "json"},
        expect=[{"name": "positive", "sql": "id > 0", "on_fail": "dead_letter"}],
    )
    ((value, facts),) = inflow.letters(1)
    assert (value, facts.line, facts.error) == (line, 2, "ExpectationFailed")


def test_rows_of_a_delta_table_that_break_a_rule_name_the_version_and_the_row(
    inflow: Inflow, tmp_path: Path
) -> None:
    table = str(tmp_path / "lake")
    for ids in ([1, 2], [3, -4], [-5]):
        write_deltalake(table, pa.table({"id": ids, "note": ["n"] * len(ids)}), mode="append")
    event = inflow.run(
        {"delta": table},
        expect=[{"name": "positive", "sql": "id > 0", "on_fail": "dead_letter"}],
    )
    assert (event.rows, event.dead_letters) == (3, 2)
    assert inflow.ids(3) == [1, 2, 3]
    found: dict[int, Any] = {facts.version: (value, facts) for value, facts in inflow.letters(2)}
    assert {version: facts.row for version, (_, facts) in found.items()} == {1: 1, 2: 0}
    assert json.loads(found[1][0]) == {"id": -4, "note": "n"}
    assert found[1][1].file.startswith(table)


def test_quoted_csv_values_may_span_lines_and_bad_lines_are_dead_lettered(
    inflow: Inflow,
) -> None:
    # Spark reads line by line: "one" becomes a row and the rest bad lines.
    rows = ["id,note", '1,"one\r\ntwo, ""three""\n\nfour"', "2,plain", 'x,"bad\nrow"', "3", "4,d"]
    (inflow.folder / "a.csv").write_bytes("\r\n".join(rows).encode())
    (inflow.folder / "b.csv").write_bytes(b"id,note\n5,plain\ny,bad\n")
    (inflow.folder / "c.csv").write_bytes(b'id,note\n6,"a\r\nb"\n')
    last = inflow.run(
        {"files": str(inflow.folder), "format": "csv", "schema": "id BIGINT, note STRING"}
    )
    assert (last.rows, last.bad) == (5, {"NotCsv": 3})
    found = {each["id"]: each["note"] for each in inflow.values(5)}
    assert found.pop(1) == 'one\r\ntwo, "three"\n\nfour'
    assert found == {2: "plain", 4: "d", 5: "plain", 6: "a\r\nb"}
    letters = [(value.rstrip(b"\r\n"), Path(facts.file).name) for value, facts in inflow.letters(3)]
    assert sorted(letters) == [(b"3", "a.csv"), (b'x,"bad\nrow"', "a.csv"), (b"y,bad", "b.csv")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        # All following lines would become one value.
        (b'id,note\n1,a\n2,"b\n3,c\n', "a quoted value begins in line 3 and does not end"),
        # Other characters would replace it.
        (b"id,note\n1,a\n2,\xfc\n", "line 3 is not UTF-8"),
    ],
)
def test_an_ambiguous_csv_file_stops_the_flow(inflow: Inflow, content: bytes, said: str) -> None:
    (inflow.folder / "a.csv").write_bytes(content)
    source = {"files": str(inflow.folder), "format": "csv", "schema": "id BIGINT, note STRING"}
    (failed,) = inflow.fails(source)
    assert f"a.csv: {said}" in str(failed)
