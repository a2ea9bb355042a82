"""The schema of `format("headrace")`, which is that of Spark's Kafka source, and its rows."""

from typing import Final

import pyarrow as pa

from headrace.records.arrow.columns import HEADER, RecordArrays

SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)
HEADERS: Final = ", headers array<struct<key: string, value: binary>>"
_MICROSECONDS: Final = pa.timestamp("us", tz="UTC")


def schema(*, with_headers: bool) -> str:
    """As Spark's DDL."""
    return SCHEMA + HEADERS if with_headers else SCHEMA


def to_batch(records: RecordArrays, topic: str, partition: int) -> pa.RecordBatch:
    """The records as rows of that schema."""
    count = len(records)
    columns = {
        "key": records.key,
        "value": records.value,
        "topic": pa.repeat(pa.scalar(topic), count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "offset": records.offset,
        "timestamp": records.timestamp_ms.cast(pa.timestamp("ms", tz="UTC")).cast(_MICROSECONDS),
        "timestampType": records.timestamp_type,
    }
    if records.headers is not None:
        columns["headers"] = records.headers.cast(pa.list_(HEADER))
    return pa.RecordBatch.from_pydict(columns)
