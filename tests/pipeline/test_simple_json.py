"""Rows that tasks parse themselves equal Spark's rows, value for value."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.batch.json_read_task import simple_form
from headrace.pipeline.core.columns import ERROR
from headrace.pipeline.formats import parse, prepare
from headrace.pipeline.formats.schema import StructOf
from headrace.pipeline.spec import Flow
from support.pipelines.json_records import SCHEMA, Records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
LIMIT_BYTES = 100_000


def flow_of(tmp_path: Path, duplicate_keys: str) -> Flow:
    text = f"""
pipeline: p
source:
  topics: [t]
  value: {{format: json, duplicate_keys: {duplicate_keys}, schema: "{SCHEMA}"}}
  max_record_bytes: 100kB
sink: {{format: delta, table: t}}
dead_letter: {{topic: bad}}
checkpoint: {tmp_path}
"""
    return parse_spec(text).resolved()[0]


def by_spark(spark: "SparkSession", flow: Flow, values: Sequence[bytes]) -> pa.Table:
    made = [(None, value, "t", 0, at, None, 0) for at, value in enumerate(values)]
    records = spark.createDataFrame(made, COLUMNS).coalesce(1)
    rows = parse(records, flow, prepare(flow))
    return rows.orderBy("_record.offset").toArrow()


def comparable(value: Any) -> Any:
    """Distinguishes negative zero from zero, as a table does."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple):
        return [comparable(each) for each in value]
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items()}
    return value


@pytest.mark.parametrize("duplicate_keys", ["last", "error"])
def test_simple_records_become_the_same_rows_as_in_spark(
    spark: "SparkSession", tmp_path: Path, duplicate_keys: str
) -> None:
    """Spark accepts every record that the reader accepts, with the same columns."""
    flow = flow_of(tmp_path, duplicate_keys)
    made = Records(7)
    values = [made.plain() for _ in range(1000)] + [made.odd() for _ in range(9000)]
    expected = by_spark(spark, flow, values)
    schema = prepare(flow).value
    form = simple_form(schema, LIMIT_BYTES, "UTC")
    assert form is not None
    rows, simple = form.reader().read(pa.array(values, pa.binary()))
    rows.validate(full=True)
    assert rows.schema.names == names(schema.columns)

    chosen = expected.filter(pa.array(simple))
    wrong = [
        (values[at], error)
        for at, error in enumerate(expected.column(ERROR).to_pylist())
        if simple[at] and error is not None
    ]
    assert wrong == []
    for name in rows.schema.names:
        ours, sparks = rows.column(name).to_pylist(), chosen.column(name).to_pylist()
        records = (value for value, taken in zip(values, simple, strict=True) if taken)
        for record, mine, theirs in zip(records, ours, sparks, strict=True):
            assert comparable(mine) == comparable(theirs), (name, record)
    if duplicate_keys == "last":
        assert simple[:1000].all(), "what most producers write is simple"
        good = pa.compute.is_null(expected.column(ERROR)).to_numpy()
        assert simple.sum() > 0.7 * good.sum()


def names(columns: StructOf) -> list[str]:
    return list(columns.names)
