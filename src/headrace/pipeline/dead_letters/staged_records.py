"""Reads the bad records that a batch's tasks have staged, with bounded memory."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow.parquet as pq

from headrace.pipeline.core.columns import ERROR, RECORD
from headrace.pipeline.dead_letters.headers import Facts, letter_headers
from headrace.pipeline.sinks.table_sink import BatchInfo
from headrace.records.record import Record

ROWS_AT_A_TIME: Final = 64
"""A small number, because a record may be as large as a topic allows."""


def staged_letters(
    batch: BatchInfo, paths: Sequence[str], now_ms: int
) -> Iterator[tuple[int, Record]]:
    """Each dead letter with its source partition."""
    for record, error in staged_rows(paths):
        yield record["partition"], _letter(batch, record, error, now_ms)


def staged_rows(paths: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each `_record` with its `_error`."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            for rows in file.iter_batches(batch_size=ROWS_AT_A_TIME, columns=[RECORD, ERROR]):
                for row in rows.to_pylist():
                    yield row[RECORD], row[ERROR]


def _letter(
    batch: BatchInfo, record: Mapping[str, Any], error: Mapping[str, Any], now_ms: int
) -> Record:
    facts = Facts(
        topic=record["topic"],
        partition=record["partition"],
        offset=record["offset"],
        timestamp_ms=milliseconds(record["timestamp"]),
        error=error["class"] or "",
        message=error["message"] or "",
        pipeline=batch.pipeline,
        batch_id=batch.batch_id,
        schema_version=batch.schema_version,
    )
    own = tuple((each["key"], each["value"]) for each in record["headers"] or ())
    return Record(0, now_ms, record["key"], record["value"], letter_headers(own, facts))


def milliseconds(timestamp: datetime | None) -> int:
    return -1 if timestamp is None else round(timestamp.timestamp() * 1000)
