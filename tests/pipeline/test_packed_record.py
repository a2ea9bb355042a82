"""Bad records reach the sink's tasks unchanged, whatever their content."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.core.columns import ERROR, ERROR_TYPE, RECORD, RECORD_TYPE
from headrace.pipeline.core.packed_columns import (
    packed_error,
    packed_record,
    unpacked_errors,
    unpacked_records,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIELDS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def record(**changes: Any) -> dict[str, Any]:
    usual = (b"k", b"v", "t", 0, 7, NOON, 0, [])
    return {**dict(zip(FIELDS, usual, strict=True)), **changes}


RECORDS: list[dict[str, Any] | None] = [
    None,
    record(),
    record(key=None),
    record(value=None),
    record(key=None, value=None, headers=None, timestamp=None),
    record(key=b"", value=b""),
    record(key=b"\n{}\n", value=b'{"key": 3}\n\x00\xff'),
    record(topic='a"b\\\n', partition=-1, offset=2**62, timestampType=1),
    record(timestamp=NOON + timedelta(microseconds=123_456)),
    record(timestamp=datetime(1, 1, 1, tzinfo=UTC)),
    record(timestamp=datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    record(headers=[{"key": "a", "value": b"\xff\x00"}, {"key": "ä\n", "value": None}]),
    record(headers=[{"key": "a", "value": b""}, {"key": "a", "value": b"2"}]),
    record(value=bytes(range(256)) * 300),
]
ERRORS: list[dict[str, str] | None] = [
    None,
    {"class": "NotJson", "message": 'a "text"\nof lines \\ ä \u2028', "action": "skip"},
]


def test_an_unpacked_record_equals_the_original(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([(each,) for each in RECORDS], f"{RECORD} {RECORD_TYPE}")
    packed = rows.coalesce(1).selectExpr(packed_record(keep="true")).toArrow()
    found = unpacked_records(packed.column(RECORD).combine_chunks())
    assert found.to_pylist() == RECORDS


def test_only_requested_fields_are_packed(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([(record(),)], f"{RECORD} {RECORD_TYPE}")
    assert rows.selectExpr(packed_record(keep="false")).toArrow()[RECORD].null_count == 1


def test_an_unpacked_error_equals_the_original(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([(each,) for each in ERRORS], f"{ERROR} {ERROR_TYPE}")
    packed = rows.coalesce(1).selectExpr(packed_error()).toArrow()
    assert unpacked_errors(packed.column(ERROR).combine_chunks()).to_pylist() == ERRORS
