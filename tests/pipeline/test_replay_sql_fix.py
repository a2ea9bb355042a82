"""Dead letters repaired by SQL before they are sent again."""

import json
from typing import TYPE_CHECKING

import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline.dead_letters.dead_letter_reader import Letter
from headrace.pipeline.dead_letters.headers import Facts
from headrace.pipeline.dead_letters.python_fix import DraftRecord
from headrace.pipeline.dead_letters.sql_fix import SqlFix
from headrace.pipeline.spec.select import NotASelect
from headrace.records.record import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow, pytest.mark.timeout(300)]


def letters(*values: bytes | None) -> list[Letter]:
    facts = Facts("orders", 0, 0, 0, "SchemaError", "amount", "p", 0, 1)
    at = TopicPartition("dlq", 0)
    return [Letter(at, Record(i, 0, b"k", value), facts) for i, value in enumerate(values)]


def results(spark: "SparkSession", sql: str, *values: bytes | None) -> list[object]:
    drafts = SqlFix(sql, spark)(letters(*values))
    return [each.value if isinstance(each, DraftRecord) else str(each) for each in drafts]


def test_sql_changes_one_field_and_keeps_the_others(spark: "SparkSession") -> None:
    sql = "SELECT * EXCEPT (amount), CAST(amount AS double) AS amount FROM source"
    made = results(
        spark,
        sql,
        b'{"id": 1, "amount": "1.5", "tags": ["a", 2], "name": "x"}',
        b'{"id": "two", "amount": 2}',
    )
    assert [json.loads(str(each)) for each in made] == [
        {"id": 1, "amount": 1.5, "tags": ["a", 2], "name": "x"},
        {"id": "two", "amount": 2.0},
    ]


def test_dead_letters_that_the_sql_filters_out_are_kept(spark: "SparkSession") -> None:
    made = results(spark, "SELECT id FROM source WHERE id IS NOT NULL", b'{"id": 1}', b"broken")
    assert made == ['{"id":1}', "the SELECT leaves it out"]


def test_sql_can_replace_the_whole_value(spark: "SparkSession") -> None:
    sql = "SELECT replace(_value, ';', ',') AS _value FROM source"
    assert results(spark, sql, b'{"a": 1; "b": 2}', None) == ['{"a": 1, "b": 2}', None]


def test_sql_that_fails_is_explained(spark: "SparkSession") -> None:
    with pytest.raises(NotASelect, match="no_such_function"):
        results(spark, "SELECT no_such_function(id) AS id FROM source", b'{"id": 1}')
