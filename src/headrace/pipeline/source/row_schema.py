"""The schema of `format("headrace")`, which is that of Spark's Kafka source, and its rows."""

from functools import lru_cache
from typing import Final

import pyarrow as pa

from headrace.records.arrow.columns import HEADER, RecordArrays

SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)
HEADERS: Final = ", headers array<struct<key: string, value: binary>>"
DAMAGE_COLUMN: Final = "damage"
DAMAGE: Final = f", {DAMAGE_COLUMN} string"
_MICROSECONDS: Final = pa.timestamp("us", tz="UTC")
YEARS_MS: Final = (-62_135_596_800_000, 253_402_300_799_999)
"""The years 1 to 9999. A producer may send any number as a timestamp. Spark, Arrow and Python
cannot all represent a time outside this range, so it becomes null."""


def schema(*, with_headers: bool, with_damage: bool = False) -> str:
    """The schema as Spark DDL. In a row for a damaged batch, `damage` gives the reason."""
    return SCHEMA + (HEADERS if with_headers else "") + (DAMAGE if with_damage else "")


def arrow_schema(*, with_headers: bool, with_damage: bool) -> pa.Schema:
    """The same schema for Arrow."""
    fields = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _MICROSECONDS),
        ("timestampType", pa.int32()),
    ]
    if with_headers:
        fields.append(("headers", pa.list_(HEADER)))
    if with_damage:
        fields.append((DAMAGE_COLUMN, pa.string()))
    return pa.schema(fields)


def to_batch(
    records: RecordArrays, topic: str, partition: int, *, with_damage: bool = False
) -> pa.RecordBatch:
    """The records as rows of this schema."""
    count = len(records)
    columns = {
        "key": records.key,
        "value": records.value,
        "topic": _all(topic, pa.string(), count),
        "partition": _all(partition, pa.int32(), count),
        "offset": records.offset,
        "timestamp": _times(records.timestamp_ms),
        "timestampType": records.timestamp_type,
    }
    if records.headers is not None:
        columns["headers"] = records.headers.cast(pa.list_(HEADER))
    if with_damage:
        whole = records.damage is None
        columns[DAMAGE_COLUMN] = pa.nulls(count, pa.string()) if whole else records.damage
    return pa.RecordBatch.from_pydict(columns)


def as_structs(batch: pa.RecordBatch) -> pa.Array:
    """The rows of `to_batch` as structs. Without headers in the input, the headers are null."""
    fields = arrow_schema(with_headers=True, with_damage=False)
    found = [
        batch.column(field.name)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in fields
    ]
    return pa.StructArray.from_arrays(found, fields=list(fields))


def _all(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    """An array of `count` equal values. The chunks of a task share one array."""
    return _repeated(value, kind, 1 << count.bit_length()).slice(0, count)


@lru_cache(maxsize=8)
def _repeated(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def _times(milliseconds: pa.Array) -> pa.Array:
    first, last = YEARS_MS
    numbers = milliseconds.to_numpy()
    if len(numbers) and (numbers.min() < first or numbers.max() > last):
        milliseconds = pa.array(numbers, mask=(numbers < first) | (numbers > last))
    return milliseconds.cast(pa.timestamp("ms", tz="UTC")).cast(_MICROSECONDS)
