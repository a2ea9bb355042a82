"""Staged bad records of a batch, as its tasks would write them."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

RECORD = pa.struct(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
ERROR = pa.struct([("class", pa.string()), ("message", pa.string()), ("action", pa.string())])


class Bad(NamedTuple):
    """A bad record and its error."""

    topic: str
    partition: int
    offset: int
    value: bytes | None = b"{"
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None
    error: str = "ParseError"
    message: str = "not JSON"
    timestamp_ms: int = 1_700_000_000_123


def stage(folder: Path, records: Sequence[Bad]) -> str:
    rows = [
        {
            "_record": {
                "key": bad.key,
                "value": bad.value,
                "topic": bad.topic,
                "partition": bad.partition,
                "offset": bad.offset,
                "timestamp": datetime.fromtimestamp(bad.timestamp_ms / 1000, UTC),
                "timestampType": 0,
                "headers": None
                if bad.headers is None
                else [{"key": name, "value": value} for name, value in bad.headers],
            },
            "_error": {"class": bad.error, "message": bad.message, "action": "dead_letter"},
        }
        for bad in records
    ]
    path = folder / f"{uuid.uuid4().hex}.parquet"
    table = pa.Table.from_pylist(rows, schema=pa.schema([("_record", RECORD), ("_error", ERROR)]))
    pq.write_table(table, path)
    return str(path)
