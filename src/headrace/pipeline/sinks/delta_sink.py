"""Delta tables: tasks write files, the driver commits them through deltalake, without a JVM.

The commit's application transactions hold the pipeline, the batch and the end offset of each
partition. Delta keeps them permanently, even when it cleans up its history, and rejects concurrent
commits of the same application transaction.
"""

import json
import math
import os
import re
import time
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from headrace.client.results import TopicPartition
from headrace.pipeline.core.columns import DELETED
from headrace.pipeline.core.offsets import offsets_to_json
from headrace.pipeline.sinks.commit_retries import commit_with_retries
from headrace.pipeline.sinks.data_files import FileTask
from headrace.pipeline.sinks.delta_writers import delta_writers
from headrace.pipeline.sinks.file_stores import delta_options, open_store
from headrace.pipeline.sinks.orphan_files import OrphanFiles, task_prefix
from headrace.pipeline.sinks.schema_evolution import evolved, table_columns, with_deleted_column
from headrace.pipeline.sinks.table_sink import (
    BatchInfo,
    CommittedBatch,
    MaintenanceReport,
    Mode,
    SinkError,
    TableSettings,
    TaskWriter,
    WrittenFile,
    existing_table,
)

STAGING: Final = "_headrace"
"""Readers and vacuum ignore names that start with an underscore."""
_OS_ERROR: Final = re.compile(r"\bOs \{ code: (\d+),")


def batch_app(pipeline: str) -> str:
    """The application transaction whose version is the batch."""
    return f"headrace/{pipeline}"


def offset_app(pipeline: str, partition: TopicPartition) -> str:
    """The application transaction whose version is the next offset to read."""
    return f"headrace/{pipeline}/{partition.topic}/{partition.partition}"


class DeltaSink:
    """One Delta table."""

    def __init__(self, settings: TableSettings) -> None:
        self._settings = settings
        self._schema: pa.Schema | None = None

    def _open_table(self) -> DeltaTable | None:
        settings = self._settings
        try:
            return DeltaTable(
                settings.location,
                storage_options=delta_options(settings.location, settings.storage_options),
            )
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise SinkError(f"cannot open {settings.location}: {_os_reason(error)}") from error

    def _open_existing(self) -> DeltaTable:
        return existing_table(self._open_table(), self._settings.location)

    # --- commits ---------------------------------------------------------------------------------

    def last_commit(
        self, pipeline: str, partitions: Sequence[TopicPartition]
    ) -> CommittedBatch | None:
        table = self._open_table()
        return None if table is None else _committed(table, pipeline, partitions)

    def writers(self) -> dict[str, set[str]]:
        store, base = open_store(self._settings.location, self._settings.storage_options)
        return delta_writers(store, base)

    # --- schema ---------------------------------------------------------------------------------

    def prepare(self, schema: pa.Schema) -> None:
        settings = self._settings
        rows = table_columns(schema, settings, kind="delta")
        table = self._open_table()
        if table is None:
            self._create(rows)
            self._schema = rows
            return
        there = pa.schema(table.schema().to_arrow())
        wanted, added = evolved(
            there, rows, add_columns=settings.add_columns, where=settings.location
        )
        partitioned = tuple(table.metadata().partition_columns)
        if partitioned != settings.partition_by:
            raise SinkError(
                f"{settings.location} is partitioned by {', '.join(partitioned) or 'nothing'}, the "
                f"spec says {', '.join(settings.partition_by) or 'nothing'}. A table keeps its "
                "partitioning: correct the spec, or write to another table"
            )
        if added:
            table.alter.add_columns(list(Schema.from_arrow(pa.schema(added)).fields))
        self._schema = wanted

    def _create(self, rows: pa.Schema) -> None:
        settings = self._settings
        try:
            DeltaTable.create(
                settings.location,
                schema=Schema.from_arrow(rows),
                mode="ignore",
                partition_by=list(settings.partition_by),
                storage_options=delta_options(settings.location, settings.storage_options),
            )
        except (DeltaError, OSError) as error:
            raise SinkError(f"cannot create {settings.location}: {_os_reason(error)}") from error

    # --- writing --------------------------------------------------------------------------------

    def write_task(self, batch: BatchInfo) -> TaskWriter:
        settings = self._settings
        assert self._schema is not None, "prepare comes first"
        name = task_prefix(batch.pipeline, batch.batch_id)
        if settings.mode is Mode.APPEND:
            return FileTask(
                settings.location,
                name,
                self._schema,
                settings.partition_by,
                empty_is_null=settings.partition_by,
                target_file_bytes=settings.target_file_bytes,
                storage_options=settings.storage_options,
            )
        return FileTask(
            self._staging(batch),
            name,
            with_deleted_column(self._schema),
            empty_is_null=settings.partition_by,
            storage_options=settings.storage_options,
        )

    def _staging(self, batch: BatchInfo) -> str:
        return f"{self._settings.location.rstrip('/')}/{STAGING}/{batch.pipeline}-{batch.batch_id}"

    def commit(self, batch: BatchInfo, written: Sequence[WrittenFile]) -> CommittedBatch:
        """Commits the batch once. If another writer was faster, rereads the table and retries."""
        return commit_with_retries(
            lambda: self._commit_unless_committed(batch, written),
            (CommitFailedError,),
            where=self._settings.location,
            batch=batch,
        )

    def _commit_unless_committed(
        self, batch: BatchInfo, written: Sequence[WrittenFile]
    ) -> CommittedBatch:
        """Raises `CommitFailedError` if another writer was faster."""
        partitions = list(batch.ends)
        table = self._open_existing()
        before = _committed(table, batch.pipeline, partitions)
        if before is not None and before.batch_id >= batch.batch_id:
            return before  # committed before a crash
        try:
            self._commit_files(table, batch, written)
        except CommitFailedError:
            raise
        except (DeltaError, OSError) as error:
            where = self._settings.location
            raise SinkError(f"cannot write to {where}: {_os_reason(error)}") from error
        after = _committed(self._open_existing(), batch.pipeline, partitions)
        assert after is not None
        return after

    def _commit_files(
        self, table: DeltaTable, batch: BatchInfo, written: Sequence[WrittenFile]
    ) -> None:
        if self._settings.mode is Mode.APPEND or not written:
            self._append(table, batch, written)
        else:
            self._merge(table, batch, written)

    def _append(self, table: DeltaTable, batch: BatchInfo, written: Sequence[WrittenFile]) -> None:
        actions = [
            AddAction(
                path=each.path,
                size=each.size_bytes,
                partition_values=each.partition_values,
                modification_time=0,
                data_change=True,
                stats=each.stats,
            )
            for each in written
        ]
        table.create_write_transaction(
            actions,  # type: ignore[arg-type]
            "append",
            table.schema(),
            partition_by=list(self._settings.partition_by),
            commit_properties=_commit_properties(batch),
        )

    def _merge(self, table: DeltaTable, batch: BatchInfo, written: Sequence[WrittenFile]) -> None:
        """Updates or deletes the rows of existing keys and inserts rows of new keys."""
        assert self._schema is not None
        staged = with_deleted_column(self._schema)
        store, base = open_store(self._staging(batch), self._settings.storage_options)
        paths = [f"{base}/{each.path}" for each in written if each.rows]
        if not paths:
            self._append(table, batch, [])
            return
        rows = ds.dataset(paths, schema=staged, filesystem=store, format="parquet")
        source = rows.scanner().to_reader()
        predicate = " AND ".join(
            f"target.{_quoted(name)} = source.{_quoted(name)}" for name in self._settings.key
        )
        columns = {_quoted(name): f"source.{_quoted(name)}" for name in self._schema.names}
        (
            table.merge(
                source,
                predicate,
                source_alias="source",
                target_alias="target",
                commit_properties=_commit_properties(batch),
            )
            .when_matched_delete(predicate=f"source.{DELETED}")
            .when_matched_update(columns)
            .when_not_matched_insert(columns, predicate=f"NOT source.{DELETED}")
            .execute()
        )
        after = self._open_existing()
        if after.transaction_version(batch_app(batch.pipeline)) != batch.batch_id:
            # A merge that changes nothing commits nothing, but the batch must be recorded.
            self._append(after, batch, [])
        store.delete_dir_contents(base, missing_dir_ok=True)

    # --- maintenance ----------------------------------------------------------------------------

    def compact(self) -> MaintenanceReport:
        done: dict[str, Any] = self._open_existing().optimize.compact(
            target_size=self._settings.target_file_bytes
        )
        return MaintenanceReport(
            files_added=int(done["numFilesAdded"]), files_removed=int(done["numFilesRemoved"])
        )

    def vacuum(self, older_than_hours: float) -> MaintenanceReport:
        """Deletes files that versions have removed by age, and unknown files by `OrphanFiles`.

        This method deletes the files itself: deltalake accepts no list of files to keep.
        """
        table = self._open_existing()
        removed = set(_files_to_vacuum(table, older_than_hours, full=False))
        unknown = set(_files_to_vacuum(table, older_than_hours, full=True)) - removed
        store, base = open_store(self._settings.location, self._settings.storage_options)
        leftovers = OrphanFiles(
            older_than_hours,
            time.time(),
            lambda pipeline: table.transaction_version(batch_app(pipeline)),
        )
        gone, size = 0, 0
        for path in sorted(removed | unknown):
            info = store.get_file_info(f"{base}/{path}")
            if not info.is_file:
                continue
            if path in unknown and not leftovers.may_be_deleted(path, info.mtime.timestamp()):
                continue
            store.delete_file(info.path)
            gone += 1
            size += info.size
        return MaintenanceReport(files_removed=gone, bytes_removed=size)


def _os_reason(error: Exception) -> str:
    """The operating system's message, where deltalake prints its own structs."""
    found = _OS_ERROR.search(str(error))
    return str(error) if found is None else os.strerror(int(found[1])).lower()


def _quoted(name: str) -> str:
    """For deltalake's SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _files_to_vacuum(table: DeltaTable, older_than_hours: float, *, full: bool) -> list[str]:
    """The files that a vacuum would delete. deltalake takes whole hours, so they are rounded up."""
    return table.vacuum(
        retention_hours=math.ceil(older_than_hours),
        dry_run=True,
        enforce_retention_duration=False,
        full=full,
    )


def _commit_properties(batch: BatchInfo) -> CommitProperties:
    transactions = [Transaction(batch_app(batch.pipeline), batch.batch_id)]
    transactions += [
        Transaction(offset_app(batch.pipeline, partition), offset)
        for partition, offset in batch.ends.items()
    ]
    return CommitProperties(
        custom_metadata={
            "headrace.pipeline": batch.pipeline,
            "headrace.batch": str(batch.batch_id),
            "headrace.offsets": offsets_to_json(batch.ends),
            "headrace.ranges": json.dumps([list(each) for each in batch.ranges]),
        },
        app_transactions=transactions,
    )


def _committed(
    table: DeltaTable, pipeline: str, partitions: Sequence[TopicPartition]
) -> CommittedBatch | None:
    batch_id = table.transaction_version(batch_app(pipeline))
    if batch_id is None:
        return None
    offsets = {}
    for each in partitions:
        offset = table.transaction_version(offset_app(pipeline, each))
        if offset is not None:
            offsets[each] = offset
    return CommittedBatch(batch_id, offsets, str(table.version()))
