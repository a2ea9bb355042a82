"""JSON records become rows; every bad record gets an error class and none is dropped silently."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.batch.transform import shape
from headrace.pipeline.formats import parse, prepare
from headrace.pipeline.formats.not_json import MAX_DEPTH
from headrace.pipeline.formats.schema import parse_ddl
from headrace.pipeline.formats.schema_mismatch import Explanation
from headrace.pipeline.spec import Flow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
SCHEMA = (
    "id BIGINT NOT NULL, i INT, d DOUBLE, f FLOAT, s STRING, b BOOLEAN, ts TIMESTAMP, dt DATE, "
    "dec DECIMAL(6,2), arr ARRAY<INT>, st STRUCT<x: INT, y: STRING>, m MAP<STRING, INT>, "
    "ds ARRAY<DOUBLE>, sts ARRAY<STRUCT<q: DOUBLE>>, md MAP<STRING, DOUBLE>, "
    "deep STRUCT<s: STRING, at: TIMESTAMP, ss: ARRAY<STRING>, sss: ARRAY<ARRAY<DATE>>, "
    "ms: MAP<STRING, STRING>, items: ARRAY<STRUCT<name: STRING, at: TIMESTAMP>>>"
)
MERGE = "{format: delta, table: t, mode: merge, key: [id]}"


def records(
    spark: "SparkSession", values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()
) -> "DataFrame":
    rows = [
        (keys[i] if keys else None, value, "t", 0, i, None, 0) for i, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, COLUMNS).coalesce(1)


def flow_of(tmp_path: Path, *lines: str, value: str = "", sink: str = "", key: str = "") -> Flow:
    given = value or f'{{format: json, duplicate_keys: error, schema: "{SCHEMA}"}}'
    keyed = f", key: {key}" if key else ""
    text = [
        "pipeline: p",
        f"source: {{topics: [t], value: {given}{keyed}, max_record_bytes: 100kB}}",
        f"sink: {sink or '{format: delta, table: t}'}",
        "dead_letter: {topic: bad}",
        f"checkpoint: {tmp_path}",
        *lines,
    ]
    return parse_spec("\n".join(text)).resolved()[0]


def run(spark: "SparkSession", flow: Flow, rows: "DataFrame") -> list[Any]:
    return shape(parse(rows, flow, prepare(flow, lambda: rows)), flow).collect()


GOOD = [
    b'{"id":1}',
    b' {"id":1, "unknown": {"s": 5}, "st": {"x": 1, "y": "z"}}\n',
    b'{"id":1,"i":null,"s":"","d":5,"ts":"2026-01-01T00:00:00Z","arr":[1,null],"m":{"a":1}}',
    '{"id":1,"s":"\u00e4\U0001f600 \\"s\\": 5"}'.encode(),
    b'{"id":1,"s":"12","st":{"x":7,"y":"3"},"q":{"s":12}}',
    b'{"id":1,"s" : "12","ts": "2026-01-01T00:00:00Z","q":[{"s":12,"ts":5}]}',
    b'{"id":1,"q":' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"id":1,"s":"\\ud83d\\ude00 \\\\ud800","dt":"9999-12-31","ds":[1.5,null],"m":{"a":1}}',
    b'\r\n{"_record":[null,null],"_end":false,"_corrupt":"x","id":1}',
    b'{"id":1,"s":"1","deep":{"s":"5","at":"2026-01-01T00:00:00Z","ss":["1",null],"sss":[[],null]}}',
    b'{"id":1,"deep":{"sss":[["2026-01-31"]],"ms":{"a":"1","b":null},"items":[{"at":null},null,{}]}}',
    b'{"id":1,"deep":{"items":[{"name":"true"},{"name":"1","x":{"name":1}}],"ms":{}},"items":5}',
]
BAD = {
    b"": "NotJson",
    b"  ": "NotJson",
    b"not json": "NotJson",
    b"null": "NotJson",
    b"5": "NotJson",
    b'"x"': "NotJson",
    b"[]": "NotJson",
    b'[{"id":1}]': "NotJson",
    b"{": "NotJson",
    b'{"id":1': "NotJson",
    b'{"id":1,}': "NotJson",
    b"{'id':1}": "NotJson",
    b'{"id":1} xyz': "NotJson",
    b'{"id":1}}': "NotJson",
    b'{"id":1}} xyz': "NotJson",
    b'{"id":1}} {"id":2': "NotJson",
    b'{"id":1},"x":5': "NotJson",
    b'{"id":1},"r":{"id":2}': "NotJson",
    b'{"id":1},{"id":2}': "NotJson",
    b'{"id":1},null': "NotJson",
    b'{"id":1}],"x":[1': "NotJson",
    b'\xef\xbb\xbf{"id":1}': "NotJson",
    b'{"id":1,"s":"\\ud800"}': "NotJson",
    b'{"id":1,"s":"\\uDC00x"}': "NotJson",
    b'{"id":1}{"id":2}': "NotJson",
    b'{"id":1},': "NotJson",
    b'{"id":1}\x00': "NotJson",
    b'{"id":1,"d":NaN}': "NotJson",
    b'{"id":01}': "NotJson",
    b'{"id":1,"s":"a\nb"}': "NotJson",
    b'{"id":1,"q":' + b"[" * 2000 + b"]" * 2000 + b"}": "NotJson",
    b'{"id":1,"s":"\xff\xfe"}': "InvalidUtf8",
    b'{"id":"5"}': "SchemaMismatch",
    b'{"id":5.5}': "SchemaMismatch",
    b'{"id":true}': "SchemaMismatch",
    b'{"id":9223372036854775808}': "SchemaMismatch",
    b'{"id":1,"i":2147483648}': "SchemaMismatch",
    b'{"id":1,"d":"1.5"}': "SchemaMismatch",
    b'{"id":1,"b":"true"}': "SchemaMismatch",
    b'{"id":1,"ts":"nonsense"}': "SchemaMismatch",
    b'{"id":1,"ts":5}': "SchemaMismatch",
    b'{"id":1,"dt":"2026-13-01"}': "SchemaMismatch",
    b'{"id":1,"dec":12345678.9}': "SchemaMismatch",
    b'{"id":1,"arr":[1,"x"]}': "SchemaMismatch",
    b'{"id":1,"arr":5}': "SchemaMismatch",
    b'{"id":1,"st":{"x":"q"}}': "SchemaMismatch",
    b'{"id":1,"st":[1]}': "SchemaMismatch",
    b'{"id":1,"m":{"a":"z"}}': "SchemaMismatch",
    b'{"id":1,"s":5}': "SchemaMismatch",
    b'{"id":1,"s": {"a":1}}': "SchemaMismatch",
    b'{"id":1,"s":5,"deep":{"s":"5"}}': "SchemaMismatch",
    b'{"id":1,"ts":5,"q":{"ts":"2026-01-01T00:00:00Z"}}': "SchemaMismatch",
    b'{"id":1,"deep":{"s":5}}': "SchemaMismatch",
    b'{"id":1,"deep":{"s":{"a":1,"a":1}}}': "SchemaMismatch",
    b'{"id":1,"s":"x","deep":{"s":true}}': "SchemaMismatch",
    b'{"id":1,"deep":{"at":5}}': "SchemaMismatch",
    b'{"id":1,"deep":{"ss":["a",5]}}': "SchemaMismatch",
    b'{"id":1,"deep":{"sss":[["2026-01-31"],[5]]}}': "SchemaMismatch",
    b'{"id":1,"deep":{"ms":{"a":"x","b":[1]}}}': "SchemaMismatch",
    b'{"id":1,"deep":{"items":[{"name":"a"},{"name":{"b":1}}]}}': "SchemaMismatch",
    b'{"id":1,"deep":{"items":[{"at":5}]}}': "SchemaMismatch",
    b'{"id":1,"d":1e999}': "OutOfRange",
    b'{"id":1,"f":1e300}': "OutOfRange",
    b'{"id":1,"ds":[1.5,-1e999]}': "OutOfRange",
    b'{"id":1,"sts":[{"q":1e999}]}': "OutOfRange",
    b'{"id":1,"md":{"a":1e999}}': "OutOfRange",
    b'{"id":1,"m":{"a":1,"b":3,"a":2}}': "DuplicateKey",
    b'{"id":1,"d":"NaN"}': "SchemaMismatch",
    b'{"id":1,"id":2}': "DuplicateKey",
    b'{"i":1}': "MissingField",
    b'{"id":null}': "MissingField",
    b'{"id":1,"s":"' + b"x" * 100_000 + b'"}': "TooLarge",
}


@pytest.mark.parametrize("given", ["last", "error"])
def test_the_deepest_json_that_spark_reads_is_as_deep_as_the_error_message_says(
    spark: "SparkSession", tmp_path: Path, given: str
) -> None:
    flow = flow_of(
        tmp_path, value=f'{{format: json, duplicate_keys: {given}, schema: "id BIGINT"}}'
    )
    depths = range(MAX_DEPTH - 1, MAX_DEPTH + 4)
    values = [b'{"id":1,"q":' + b"[" * (n - 1) + b"]" * (n - 1) + b"}" for n in depths]
    rows = run(spark, flow, records(spark, values))
    explanation = Explanation(parse_ddl("id BIGINT"))
    for depth, value, row in zip(depths, values, rows, strict=True):
        if depth <= MAX_DEPTH:
            assert row["_error"] is None
            continue
        message = explanation.message(value, None, row["_error"]["message"], open_=True)
        assert message == f"is nested {depth:,} levels deep; at most {MAX_DEPTH} can be read"


def test_good_records_become_rows_and_bad_ones_get_an_error_class(
    spark: "SparkSession", tmp_path: Path
) -> None:
    values = [*GOOD, *BAD, None]
    rows = run(spark, flow_of(tmp_path), records(spark, values))
    found = {value: row["_error"] and row["_error"]["class"] for value, row in zip(values, rows)}  # noqa: B905
    assert found == {**dict.fromkeys(GOOD), **BAD, None: "NoValue"}
    good = rows[: len(GOOD)]
    assert all(row["id"] == 1 and row["_record"] is None for row in good)
    assert rows[3]["s"] == '\u00e4\U0001f600 "s": 5'
    bad = rows[len(GOOD)]
    assert (bytes(bad["_record"]["value"]), bad["_record"]["offset"]) == (b"", len(GOOD))
    assert {row["_error"]["action"] for row in rows[len(GOOD) :]} == {"dead_letter"}
    assert (
        "OBJECT<d: STRING, id: BIGINT>"
        in rows[values.index(b'{"id":1,"d":"1.5"}')]["_error"]["message"]
    )
    assert [row["_deleted"] for row in rows[-2:]] == [False, True]


def test_years_that_table_readers_cannot_read_are_out_of_range_everywhere(
    spark: "SparkSession", tmp_path: Path
) -> None:
    values = [
        b'{"id":1,"ts":"+12000-01-01T00:00:00Z"}',
        b'{"id":1,"deep":{"at":"+12000-01-01T00:00:00Z"}}',
        b'{"id":1,"deep":{"items":[{"at":null},{"at":"+12000-01-01T00:00:00Z"}]}}',
    ]
    flow, rows = flow_of(tmp_path), records(spark, values)
    found = parse(rows, flow, prepare(flow, lambda: rows)).select("_error.class").collect()
    assert [row[0] for row in found] == ["OutOfRange"] * len(values)


def test_steps_and_expectations_keep_bad_records(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(
        "def double(rows):\n    return rows.withColumn('id', rows.id * 2).where('id < 100')\n",
        encoding="utf-8",
    )
    flow = flow_of(
        tmp_path,
        "transform:",
        "  - sql: SELECT id + 1 AS id, _record.offset AS at, i FROM source s WHERE s.id > 0",
        f"  - python: {tmp_path}/steps.py:double",
        "expect:",
        "  - {name: even, sql: i % 2 = 0, on_fail: dead_letter}",
        "  - {name: small, sql: id < 10, on_fail: drop}",
    )
    values = [
        b'{"id":1,"i":2}',  # good
        b"bad",
        b'{"id":0,"i":2}',  # filtered by the SQL
        b'{"id":99,"i":2}',  # filtered by the function
        b'{"id":1,"i":1}',  # not even
        b'{"id":1}',  # null is not true
        b'{"id":9,"i":2}',  # not small
    ]
    rows = run(spark, flow, records(spark, values))
    found = sorted(
        (row["_record"]["offset"], row["_error"]["class"], row["_error"]["action"])
        if row["_error"]
        else (row["at"], row["id"])
        for row in rows
    )
    assert found == [
        (0, 4),
        (1, "NotJson", "dead_letter"),
        (4, "ExpectationFailed", "dead_letter"),
        (5, "ExpectationFailed", "dead_letter"),
        (6, "ExpectationFailed", "skip"),
    ]


def test_sql_that_joins_rows_keeps_the_bad_records(spark: "SparkSession", tmp_path: Path) -> None:
    sql = "SELECT id, sum(i) AS i FROM source GROUP BY id"
    flow = flow_of(tmp_path, "transform:", f"  - {{sql: '{sql}', scope: batch}}")
    rows = run(spark, flow, records(spark, [b'{"id":1,"i":2}', b'{"id":1,"i":3}', b"bad"]))
    assert sorted((row["id"] or 0, row["i"] or 0, row["_error"] is None) for row in rows) == [
        (0, 0, False),
        (1, 5, True),
    ]


def test_tombstones_delete_by_the_key_they_come_with(spark: "SparkSession", tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "transform:",
        "  - sql: SELECT id, s FROM source WHERE s = 'x'",
        sink=MERGE,
        key='{format: json, schema: "id BIGINT"}',
    )
    rows = run(
        spark,
        flow,
        records(
            spark,
            [b'{"id":1,"s":"x"}', None, None, None],
            [b'{"id":1}', b'{"id":2}', b"bad", None],
        ),
    )
    assert [(row["id"], row["_deleted"]) for row in rows[:2]] == [(1, False), (2, True)]
    assert [row["_error"]["class"] for row in rows[2:]] == ["NotJson", "MissingKey"]


def test_csv_and_raw(spark: "SparkSession", tmp_path: Path) -> None:
    csv = flow_of(
        tmp_path / "csv", value='{format: csv, schema: "id BIGINT NOT NULL, name STRING"}'
    )
    rows = run(
        spark, csv, records(spark, [b'1,"a,b"', b"x,y", b"1", b"1,2,3", b",y", b"", b"\xff"])
    )
    assert (rows[0]["id"], rows[0]["name"]) == (1, "a,b")
    assert [row["_error"]["class"] for row in rows[1:]] == [
        "NotCsv",
        "NotCsv",
        "NotCsv",
        "MissingField",
        "NotCsv",
        "InvalidUtf8",
    ]
    raw = flow_of(tmp_path / "raw", value="{format: raw, type: string}", key="{format: raw}")
    rows = run(spark, raw, records(spark, [b"a", b"\xff"], [b"k", None]))
    assert (rows[0]["value"], bytes(rows[0]["key"])) == ("a", b"k")
    assert rows[1]["_error"]["class"] == "InvalidUtf8"


CSV_GOOD = {
    b'1,"a""b",1.5,2026-01-31': 'a"b',
    b'1,"""a""",1,2026-01-31': '"a"',
    b'1,"a,""",1,2026-01-31': 'a,"',
    b'1,"a\nb",1,2026-01-31\r\n': "a\nb",
    b'1,"",1,2026-01-31': None,
    b'1,"a" ,NaN,"2026-01-31"': "a",
    b'1,a"b,Inf,9999-12-31': 'a"b',
    b"1,a\\,1,": "a\\",
    b'1,"' + b'""' * 40_000 + b'",1,2026-01-31': '"' * 40_000,
}
CSV_BAD = {
    b'1,"a\\"b",1,2026-01-31': "NotCsv",
    b'1,"a"b,1,2026-01-31': "NotCsv",
    b'1,x,1,"2026-01-31': "NotCsv",
    b'1,"a""",1,"': "NotCsv",
    b"1,a,1,2026-01-31\n2,b,2,2026-01-31": "NotCsv",
    b"1,a,1e999,2026-01-31": "OutOfRange",
    b"1,a,1,+12000-01-31": "OutOfRange",
}


@pytest.mark.parametrize("separator", [",", "|", "\t"])
def test_csv_quotes_follow_the_rfc(spark: "SparkSession", tmp_path: Path, separator: str) -> None:
    schema = "id BIGINT, name STRING, x DOUBLE, day DATE"
    value = json.dumps({"format": "csv", "schema": schema, "separator": separator})
    flow = flow_of(tmp_path, value=value)
    given = [each.replace(b",", separator.encode()) for each in (*CSV_GOOD, *CSV_BAD)]
    rows = records(spark, given)
    parsed = parse(rows, flow, prepare(flow, lambda: rows)).select("name", "_error.class")
    names = [name and name.replace(",", separator) for name in CSV_GOOD.values()]
    found = parsed.collect()
    assert [(row["name"], row["class"]) for row in found[: len(names)]] == [
        (name, None) for name in names
    ]
    assert [row["class"] for row in found[len(names) :]] == list(CSV_BAD.values())


def test_an_inferred_schema_is_pinned(spark: "SparkSession", tmp_path: Path) -> None:
    flow = flow_of(tmp_path, value="{format: json}")
    first = records(spark, [b"bad", None, b'{"id":1,"a":{"b":1.5}}', b'{"id":2,"c":["x"]}'])
    schemas = prepare(flow, lambda: first)
    assert schemas.version == 1
    assert schemas.value.columns.names == ("id", "a", "c")
    later = records(spark, [b'{"other":1}'])
    assert prepare(flow, lambda: later) == schemas
    rows = run(spark, flow, records(spark, [b'{"id":"x"}', b'{"id":3}']))
    assert rows[0]["_error"]["class"] == "SchemaMismatch"
    assert rows[1]["id"] == 3


def test_avro_is_decoded_in_tasks(spark: "SparkSession", tmp_path: Path) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    (tmp_path / "r.avsc").write_text(json.dumps(schema), encoding="utf-8")
    flow = flow_of(tmp_path, value=f"{{format: avro, schema: {tmp_path}/r.avsc}}")
    rows = run(spark, flow, records(spark, [b"\x06", b"", b"\x06\x06", None]))
    assert rows[0]["id"] == 3
    assert [row["_error"] and row["_error"]["class"] for row in rows] == [
        None,
        "NotAvro",
        "NotAvro",
        "NoValue",
    ]
