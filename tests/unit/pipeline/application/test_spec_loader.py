"""A spec is loaded, or rejected with all of its errors, each with its line and its fix."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.application.spec_loader import load_spec, parse_spec
from headrace.pipeline.spec import (
    Delta,
    Json,
    PipelineSpec,
    SpecErrors,
    StartOffsets,
    TopicSource,
    json_schema,
)
from headrace.pipeline.spec.spec_rules import Problem

GOOD = """\
version: 1
pipeline: orders_to_lake
source:
  topics: [orders]
  start: earliest
  value: {format: json, schema: "id BIGINT, amount DOUBLE, day DATE"}
expect:
  - {name: positive, sql: "amount > 0", on_fail: dead_letter}
sink:
  format: delta
  table: lake/orders
  mode: merge
  key: [id]
  partition_by: [day]
dead_letter: {topic: orders.dlq}
trigger: 10s
checkpoint: checkpoints/orders
"""


def errors_of(text: str, **environment: str) -> dict[str, tuple[int, int, str, str]]:
    with pytest.raises(SpecErrors) as caught:
        parse_spec(text, environment=environment)
    return {
        each.dotted: (each.line, each.column, each.message, each.fix)
        for each in caught.value.errors
    }


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_good_spec_is_one_flow_with_everything_filled_in() -> None:
    (flow,) = parse_spec(GOOD).resolved()
    assert flow.id == "orders_to_lake"
    assert flow.on_error == "dead_letter"
    assert flow.trigger_s == 10
    assert isinstance(flow.sink, Delta)
    assert flow.sink.key == ("id",)


def test_all_errors_are_reported_at_once_with_line_and_column() -> None:
    text = changed("topics: [orders]", "topics: orders").replace("mode: merge", "mode: upsert")
    found = errors_of(text.replace("trigger: 10s", "trigger: 10"))
    assert {key: value[:2] for key, value in found.items()} == {
        "source.topics": (4, 11),
        "sink.mode": (12, 9),
        "trigger": (16, 10),
    }
    assert found["source.topics"][3] == "[orders]"
    assert found["sink.mode"][3] == "use one of: append, merge"


EVERY_LAYER = """\
pipeline: orders
kafka: {sasl.password: hunter2, ssl.key.password: hunter3}
source:
  topics: [orders]
  max_records_per_batch: many
  value: {format: json, schema: "id BIGINT, day DATE"}
  retries: 3
transform:
  - {sql: "DELETE FROM source"}
expect:
  - {name: few, sql: "count(*) < 5"}
sink:
  format: delta
  table: ${LAKE}/orders
  mode: merge
trigger: [10s
checkpoint: state
"""


def test_the_errors_of_all_layers_are_reported_in_one_run_sorted_by_line() -> None:
    with pytest.raises(SpecErrors) as caught:
        parse_spec(EVERY_LAYER, environment={})
    assert [(each.line, each.dotted) for each in caught.value.errors] == [
        (2, "kafka.sasl.password"),  # in plain text
        (2, "kafka.ssl.key.password"),
        (5, "source.max_records_per_batch"),  # the wrong type
        (7, "source.retries"),  # an unknown key
        (9, "transform[0].sql"),  # not a SELECT
        (11, "expect[0].sql"),  # combines rows
        (14, "sink.table"),  # a variable that is not set
        (15, "sink.mode"),  # merge without a key
        (17, ""),  # a bracket that is not closed
    ]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ([("  key: [id]", "  ky: [id]")], "sink.ky"),  # not: merge needs a key
        ([("mode: merge", "mode: upsert")], "sink.mode"),  # not: append does not use a key
        ([("  table:", "  tabel:")], "sink.tabel"),  # not: table is missing
        ([("{topic:", "{tpic:")], "dead_letter.tpic"),  # not: there is no dead-letter topic
        ([("dead_letter: {topic: orders.dlq}", "dead_letter: 5")], "dead_letter"),
        ([("topics: [orders]", "topics: 5")], "source.topics"),  # not: topics is missing
        ([("  topics:", "  topcs:")], "source.topcs"),
        ([("sink:", "snik:")], "snik"),  # not: sink is missing
        ([("schema:", "shema:")], "source.value.shema"),
        ([("format: delta", "format: detla")], "sink.format"),
        ([("trigger: 10s", "trigger: ${EVERY}")], "trigger"),  # not: is not a duration
        ([("pipeline: orders_to_lake", "pipeline: [")], ""),  # not: pipeline is missing
        ([("earliest", "{offsets: {x: {0: 5}}}"), ("[orders]", "5")], "source.topics"),
    ],
)
def test_an_error_that_another_error_causes_is_not_reported(
    changes: list[tuple[str, str]], path: str
) -> None:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    assert list(errors_of(text)) == [path]


def test_a_missing_sink_does_not_hide_the_mistakes_of_steps() -> None:
    found: list[PipelineSpec] = []

    def check(spec: PipelineSpec) -> list[Problem]:
        found.append(spec)
        return [Problem(("transform", 0, "sql"), "fails"), Problem(("sink", "key"), "follows")]

    text = "pipeline: p\nsource: {topics: [a]}\ntransform:\n  - sql: SELECT 1 FROM source\n"
    with pytest.raises(SpecErrors) as caught:
        parse_spec(text, more=check)
    assert [each.dotted for each in caught.value.errors] == ["sink", "transform[0].sql"]
    assert len(found[0].resolved()) == 1


@pytest.mark.parametrize(
    ("old", "new", "path", "line", "fix"),
    [
        ("checkpoint:", "checkpont:", "checkpont", 17, "did you mean checkpoint?"),
        ("  table:", "  tabel:", "sink.tabel", 11, "did you mean table?"),
        ("schema:", "shema:", "source.value.shema", 6, "did you mean schema?"),
        ("format: delta", "format: detla", "sink.format", 10, "did you mean delta?"),
        ("format: json", "format: jsn", "source.value.format", 6, "did you mean json?"),
        ("  start:", "  strat:", "source.strat", 5, "did you mean start?"),
        ("on_fail:", "onfail:", "expect[0].onfail", 8, "did you mean on_fail?"),
        ("{topic:", "{tpic:", "dead_letter.tpic", 15, "did you mean topic?"),
    ],
)
def test_the_fix_of_a_misspelled_name_is_the_correct_name(
    old: str, new: str, path: str, line: int, fix: str
) -> None:
    found = errors_of(changed(old, new))
    assert found[path][0] == line
    assert found[path][3] == fix


@pytest.mark.parametrize(
    ("old", "new", "path", "message"),
    [
        ("  key: [id]\n", "", "sink.mode", "merge needs a key"),
        (
            "dead_letter: {topic: orders.dlq}\n",
            "",
            "expect[0].on_fail",
            "there is no dead-letter topic",
        ),
        ("orders.dlq", "orders", "dead_letter.topic", "reads orders itself"),
        ("mode: merge", "mode: append", "sink.key", "mode: append does not use a key"),
        ("[day]", "[dya]", "sink.partition_by[0]", "no column dya"),
        ("[day]", "[day, id, amount]", "sink.partition_by[0]", "that is not in partition_by"),
        ("format: delta", "format: parquet", "sink.mode", "can only be appended to"),
        ("lake/orders", "'  '", "sink.table", "is not a path"),
        ("lake/orders", r'"a\0b"', "sink.table", "is not a path"),
        ("checkpoints/orders", "lake/orders/c", "checkpoint", "is in the directory of a table"),
        ("earliest", "{offsets: {orders: {0: -1}}}", "source.start.offsets.orders[0]", "greater"),
        ("[day]", "[amount]", "sink.partition_by[0]", "a column of type double cannot be"),
        ("day DATE", "day DECIMAL(9,2)", "sink.partition_by[0]", "deltalake corrupts negative"),
        ("key: [id]", "key: [idd]", "sink.key[0]", "no column idd"),
        ("key: [id]", "key: [id, id]", "sink.key[1]", "listed twice"),
        ("id BIGINT", "id BIGNT", "source.value.schema", "no type 'bignt'"),
        ("id BIGINT", "_Record BIGINT", "source.value.schema", "cannot be named _Record"),
        ("topics: [orders]", "pattern: '('", "source.pattern", "is not a regular expression"),
        ("  topics: [orders]\n", "", "source", "topics is missing"),
        ("earliest", "{offsets: {other: {0: 5}}}", "source.start.offsets.other", "not one of"),
        ("earliest", "{timestamp: 2026-01-01T00:00:00}", "source.start.timestamp", "zone"),
        ("format: delta", "format: iceberg", "sink.table", "does not match"),
        ("format: json, schema:", "format: avro, schma:", "source.value.schma", "unknown key"),
    ],
)
def test_a_spec_that_breaks_a_rule_is_rejected(old: str, new: str, path: str, message: str) -> None:
    assert message in errors_of(changed(old, new))[path][2]


def test_two_formats_cannot_share_a_folder() -> None:
    # Vacuum deletes files that do not belong to the table, also those of the other table.
    flow = "{{name: {0}, source: {{topics: [a]}}, sink: {{format: {0}, table: lake/a}}}}"
    found = errors_of(f"pipeline: p\nflows: [{flow.format('delta')}, {flow.format('parquet')}]\n")
    assert "another flow writes a table of format delta" in found["flows[1].sink.table"][2]


@pytest.mark.parametrize(
    ("text", "line", "message", "fix"),
    [
        (GOOD + "---\n" + GOOD, 18, "a second document begins here", "write one spec per file"),
        (changed("earliest", "{timestamp: 2026-13-01T00:00:00Z}"), 5, "month must be in 1..12", ""),
        ("a: " + "[" * 3000, 1, "nested too deeply", ""),
    ],
    ids=["second", "date", "deep"],
)
def test_invalid_yaml_is_reported_with_its_line(
    text: str, line: int, message: str, fix: str
) -> None:
    found = errors_of(text)[""]
    assert (found[0], message in found[2], fix in found[3]) == (line, True, True)


def test_an_expectation_cannot_dead_letter_after_sql_that_combines_rows() -> None:
    sql = "SELECT id, sum(amount) AS amount FROM source GROUP BY id"
    step = f"transform:\n  - {{sql: '{sql}', scope: batch}}\nexpect:"
    found = errors_of(changed("expect:", step).replace("partition_by: [day]", ""))
    assert "cannot be traced to its record" in found["expect[0].on_fail"][2]


def test_sql_that_combines_rows_is_rejected_with_its_line_unless_its_scope_is_a_batch() -> None:
    step = "transform:\n  - sql: SELECT id, day, count(*) AS amount FROM source GROUP BY id, day\n"
    line = changed("expect:", step + "expect:").split("\n").index(step.split("\n")[1]) + 1
    found = errors_of(changed("expect:", step + "expect:"))["transform[0].sql"]
    assert found[0] == line
    assert found[2].startswith("GROUP BY, count(): each batch would be computed by itself")
    assert "scope: batch" in found[3]
    parse_spec(
        GOOD.replace("expect:", f"{step}    scope: batch\nexpect:").replace(
            "on_fail: dead_letter", "on_fail: drop"
        )
    )


@pytest.mark.parametrize("sql", ["count(*) OVER (PARTITION BY id) = 1", "amount < max(amount)"])
def test_an_expectation_that_combines_rows_is_rejected(sql: str) -> None:
    text = changed("expect:", f"expect:\n  - {{name: unique, sql: '{sql}'}}")
    assert "one row at a time" in errors_of(text)["expect[0].sql"][2]


def test_files_can_only_be_written_to_topics() -> None:
    text = """
pipeline: inflow
source: {files: in/, format: json}
sink: {format: delta, table: t}
"""
    assert errors_of(text)["sink.format"][3] == "format: topic"
    good = parse_spec(text.replace("{format: delta, table: t}", "{format: topic, topic: t}"))
    assert good.resolved()[0].source.format == "json"  # type: ignore[union-attr]


def test_bad_lines_of_files_can_be_dead_lettered_unless_an_option_changes_lines() -> None:
    text = """
pipeline: inflow
source: {files: in/, format: json}
sink: {format: topic, topic: t}
dead_letter: {topic: bad}
"""
    assert parse_spec(text).resolved()[0].on_error == "dead_letter"
    assert "is the flow's sink" in errors_of(text.replace("bad", "t"))["dead_letter.topic"][2]
    whole = text.replace("json}", "json, options: {multiLine: true}}")
    assert errors_of(whole)["on_error"][3] == "on_error: fail"
    assert parse_spec(whole + "on_error: fail\n").resolved()[0].on_error == "fail"


def test_several_flows_inherit_from_the_pipeline() -> None:
    spec = parse_spec("""
pipeline: app
dead_letter: {topic: bad}
checkpoint: state
flows:
  - {name: a, source: {topics: [a]}, sink: {format: parquet, table: a}}
  - {name: b, source: {topics: [b]}, sink: {format: topic, topic: c}, trigger: once, on_error: fail}
""")
    first, second = spec.resolved()
    assert (first.id, first.checkpoint, first.on_error) == ("app.a", "state/a", "dead_letter")
    assert (second.id, second.trigger_s, second.on_error) == ("app.b", None, "fail")


def test_duplicate_flow_names_and_flows_beside_a_source_are_rejected() -> None:
    flow = "{name: a, source: {topics: [a]}, sink: {format: parquet, table: a}}"
    found = errors_of(f"pipeline: p\nsource: {{topics: [x]}}\nflows: [{flow}, {flow}]\n")
    assert set(found) == {"source", "flows[1].name"}


def test_paths_are_relative_to_the_file_and_variables_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(changed("lake/orders", "${LAKE}/orders"), encoding="utf-8")
    (flow,) = load_spec(file, environment={"LAKE": "lake"}).resolved()
    assert isinstance(flow.sink, Delta)
    assert flow.sink.table == str(tmp_path / "lake/orders")
    assert flow.checkpoint == str(tmp_path / "checkpoints/orders")


SECRET = """\
pipeline: p
kafka:
  bootstrap.servers: localhost:9092
  sasl.password: {}
source: {{topics: [a]}}
sink: {{format: parquet, table: a}}
"""


def test_a_secret_in_plain_text_is_rejected_and_not_shown() -> None:
    with pytest.raises(SpecErrors) as caught:
        parse_spec(SECRET.format("hunter2"))
    assert caught.value.errors[0].dotted == "kafka.sasl.password"
    assert "hunter2" not in caught.value.render()


def test_a_secret_in_a_variable_is_read_when_used_and_never_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SASL_PASSWORD", "hunter2")
    spec = parse_spec(SECRET.format("${SASL_PASSWORD}"))
    assert "hunter2" not in repr(spec) + spec.model_dump_json()
    assert spec.resolved()[0].kafka_settings()["sasl.password"] == "hunter2"


def test_an_unset_variable_is_reported_with_its_line() -> None:
    found = errors_of(SECRET.format("${UNSET_VARIABLE}"))
    assert found["kafka.sasl.password"][0] == 4


# A few lines that expand to 9^6 values.
BOMB = "a0: &a0 [1]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 7)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a mapping"),
        ("- a", "is not a mapping"),
        ("a: [1", "is not valid YAML"),
        ("a: 1\n\tb: 2", "is not valid YAML"),
        ("pipeline: p\npipeline: q", "is a duplicate"),
        ("a: \x00", "is not valid YAML"),
        ("a: &a [*a]", "is not valid YAML"),
        ("? [1, 2]\n: 3", "plain value"),
        ("a: !!python/object:os.system x", "is not valid YAML"),
        (BOMB, "too many values"),
    ],
)
def test_a_text_that_is_not_a_spec_is_rejected_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(SpecErrors, match=message):
        parse_spec(text)


def test_a_missing_file_is_rejected_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(SpecErrors, match="No such file"):
        load_spec(tmp_path / "nothing.yaml")


def test_a_spec_in_python_follows_the_same_rules() -> None:
    spec = PipelineSpec(
        pipeline="p",
        source=TopicSource(
            topics=("a",),
            start=StartOffsets(offsets={"a": {0: 5}}),
            value=Json(schema="id BIGINT"),
        ),
        sink=Delta(table="t", mode="merge", key=("id",)),
    )
    assert spec.resolved()[0].on_error == "fail"
    with pytest.raises(ValueError, match="merge needs a key"):
        PipelineSpec(
            pipeline="p", source=TopicSource(topics=("a",)), sink=Delta(table="t", mode="merge")
        )


def test_the_published_json_schema_is_current() -> None:
    """script/print-pipeline-schema > docs/pipeline-spec.schema.json"""
    file = Path(__file__).parents[4] / "docs/pipeline-spec.schema.json"
    assert json.loads(file.read_text(encoding="utf-8")) == json.loads(json.dumps(json_schema()))
