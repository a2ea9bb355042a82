"""Writes a task's rows into Parquet files, one open file for each partition of the table.

A file's name has the pipeline, the batch and a random id. A task that runs twice writes different
files, and only those that its successful attempt reports are committed. A file that is never
committed is an orphan, which `vacuum` removes.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.pipeline.sinks.file_stores import is_on_disk, open_store
from headrace.pipeline.sinks.partition_values import (
    partition_directory,
    partition_texts,
    without_empty,
)
from headrace.pipeline.sinks.schema_evolution import conform
from headrace.pipeline.sinks.statistics import delta_stats
from headrace.pipeline.sinks.table_sink import WrittenFile

COMPRESSION: Final = "zstd"
MAX_OPEN_FILES: Final = 256
"""The number of partitions of the table that one task may write at a time."""

DESCRIPTION: Final = pa.schema(
    [
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("size_bytes", pa.int64()),
        ("partition_values", pa.string()),
        ("stats", pa.string()),
    ]
)
DESCRIPTION_DDL: Final = (
    "path string, rows bigint, size_bytes bigint, partition_values string, stats string"
)


@dataclass(frozen=True)
class FileTask:
    """Picklable: Spark sends it to its workers."""

    location: str
    prefix: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    keep_partition_columns: bool = False
    empty_is_null: tuple[str, ...] = ()
    """String partition columns, if the table's format has no empty partition values."""
    target_file_bytes: int = 128 << 20
    storage_options: Mapping[str, str] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writing = self.open()
        try:
            for batch in batches:
                writing.add(conform(batch, self.schema))
            writing.close()
        except BaseException:
            writing.abandon()
            raise
        yield describe(writing.written)

    def open(self) -> "Writing":
        """For a task that does not get its rows as an iterator of batches."""
        return Writing(self)


def describe(written: list[WrittenFile]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {**each._asdict(), "partition_values": json.dumps(dict(each.partition_values))}
            for each in written
        ],
        schema=DESCRIPTION,
    )


def described(row: Mapping[str, Any]) -> WrittenFile:
    """The opposite of `describe`, for one collected row."""
    return WrittenFile(
        row["path"],
        row["rows"],
        row["size_bytes"],
        json.loads(row["partition_values"]),
        row["stats"],
    )


class _OpenFile:
    def __init__(self, task: FileTask, values: dict[str, str | None], schema: pa.Schema) -> None:
        self.store, base = open_store(task.location, task.storage_options)
        folders = "".join(f"{partition_directory(name, value)}/" for name, value in values.items())
        self.relative = f"{folders}{task.prefix}-{uuid.uuid4().hex}.parquet"
        self.path = f"{base}/{self.relative}"
        self.values = values
        self.rows = 0
        if is_on_disk(task.location):  # a bucket has no directories
            self.store.create_dir(self.path.rpartition("/")[0], recursive=True)
        self._metadata: list[pq.FileMetaData] = []
        self._sink = self.store.open_output_stream(self.path)
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression=COMPRESSION, metadata_collector=self._metadata
        )

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)
        self.rows += rows.num_rows

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def close(self) -> WrittenFile:
        self._writer.close()
        size = self.size_bytes
        self._sink.close()
        stats = delta_stats(self._metadata[0], self.rows)
        return WrittenFile(self.relative, self.rows, size, self.values, stats)

    def abandon(self) -> None:
        """Deletes the file: it will not be committed."""
        with suppress(OSError):
            self._sink.close()
        with suppress(OSError):
            self.store.delete_file(self.path)


class Writing:
    """The open files of one task."""

    def __init__(self, task: FileTask) -> None:
        self._task = task
        self._open: dict[tuple[str | None, ...], _OpenFile] = {}
        kept = [
            field
            for field in task.schema
            if task.keep_partition_columns or field.name not in task.partition_by
        ]
        self._file_schema = pa.schema(kept)
        self.written: list[WrittenFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Writes rows of the table's schema, see `conform`."""
        if not batch.num_rows:
            return
        batch = without_empty(batch, self._task.empty_is_null)
        if not self._task.partition_by:
            self._write_partition((), batch)
            return
        keys = [partition_texts(batch.column(name)) for name in self._task.partition_by]
        table = pa.table({f"p{at}": key for at, key in enumerate(keys)})
        for values in table.group_by(table.column_names).aggregate([]).to_pylist():
            wanted = tuple(values.values())
            mask = None
            for key, value in zip(keys, wanted, strict=True):
                same = pc.is_null(key) if value is None else pc.equal(key, value)
                same = pc.fill_null(same, False)
                mask = same if mask is None else pc.and_(mask, same)
            self._write_partition(wanted, batch.filter(mask))

    def _write_partition(self, values: tuple[str | None, ...], rows: pa.RecordBatch) -> None:
        file = self._open.get(values)
        if file is None:
            if len(self._open) == MAX_OPEN_FILES:
                self._close_file(max(self._open, key=lambda key: self._open[key].rows))
            named = dict(zip(self._task.partition_by, values, strict=True))
            file = self._open[values] = _OpenFile(self._task, named, self._file_schema)
        file.write(rows.select(self._file_schema.names))
        if file.size_bytes >= self._task.target_file_bytes:
            self._close_file(values)

    def _close_file(self, values: tuple[str | None, ...]) -> None:
        self.written.append(self._open.pop(values).close())

    def close(self) -> None:
        for values in list(self._open):
            self._close_file(values)

    def abandon(self) -> None:
        for file in self._open.values():
            file.abandon()
