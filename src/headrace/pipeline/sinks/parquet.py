"""A folder of Parquet files with a manifest a batch: exact without a table format.

`parquet_files` lists what counts. Tools that simply read every file of the folder see the same,
except between a crash and the next run, when files of an unfinished batch may lie there.
"""

import uuid
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from headrace.client.outcomes import TopicPartition
from headrace.pipeline.sinks.evolution import check_columns, evolved
from headrace.pipeline.sinks.files import COMPRESSION, FileTask
from headrace.pipeline.sinks.manifests import FOLDER, Manifest, Manifests, files_of
from headrace.pipeline.sinks.stores import open_store
from headrace.pipeline.sinks.table import (
    BatchInfo,
    Committed,
    MaintenanceReport,
    Mode,
    SinkError,
    TableSettings,
    TaskWriter,
    WrittenFile,
)

HOUR_S: Final = 3600
SMALL_SHARE: Final = 0.5  # a file below half the target is worth joining


class ParquetSink:
    """One folder."""

    def __init__(self, settings: TableSettings) -> None:
        if settings.mode is not Mode.APPEND:
            raise SinkError(
                f"{settings.location}: a folder of Parquet files can only be appended to. "
                "Use format: delta or iceberg for mode: merge"
            )
        self._settings = settings
        self._store, self._base = open_store(settings.location, settings.storage_options)
        self._manifests = Manifests(self._store, self._base)
        self._schema: pa.Schema | None = None

    # --- what the folder holds ------------------------------------------------------------------

    def last_commit(self, pipeline: str, partitions: Sequence[TopicPartition]) -> Committed | None:
        mine = [each for each in self._manifests.read() if each.pipeline == pipeline]
        if not mine:
            return None
        last = mine[-1]
        return Committed(last.batch_id, last.offsets, str(last.sequence))

    def prepare(self, schema: pa.Schema) -> None:
        """New columns are simply in new files; a column of another type is refused."""
        settings = self._settings
        check_columns(
            schema, settings.partition_by, where=settings.location, correct="partition_by"
        )
        self._schema = schema
        files = files_of(self._manifests.read())
        if files:
            there = pq.read_schema(f"{self._base}/{files[-1]}", filesystem=self._store)
            rows = pa.schema([each for each in schema if each.name not in settings.partition_by])
            evolved(there, rows, add_columns=settings.add_columns, where=settings.location)

    # --- writing --------------------------------------------------------------------------------

    def write_task(self, batch: BatchInfo) -> TaskWriter:
        assert self._schema is not None, "prepare comes first"
        settings = self._settings
        prefix = f"{batch.pipeline}-{batch.batch_id}"
        self._remove_unfinished(prefix)
        return FileTask(
            settings.location,
            prefix,
            self._schema,
            settings.partition_by,
            target_file_bytes=settings.target_file_bytes,
            storage_options=settings.storage_options,
        )

    def _remove_unfinished(self, prefix: str) -> None:
        """What an earlier try at this batch has left; the batch is not in any manifest."""
        counted = set(files_of(self._manifests.read()))
        for info in self._data_files():
            if info.base_name.startswith(f"{prefix}-") and self._relative(info) not in counted:
                self._store.delete_file(info.path)

    def commit(self, batch: BatchInfo, written: Sequence[WrittenFile]) -> Committed:
        manifests = self._manifests.read()
        before = self.last_commit(batch.pipeline, ())
        if before is not None and before.batch_id >= batch.batch_id:
            return before  # a replay: the rows are in
        offsets = {**(before.offsets if before is not None else {}), **batch.ends}
        sequence = manifests[-1].sequence + 1 if manifests else 0
        self._manifests.write(
            Manifest(
                batch.pipeline,
                batch.batch_id,
                sequence,
                offsets,
                added=[each.path for each in written if each.rows],
            )
        )
        return Committed(batch.batch_id, offsets, str(sequence))

    # --- maintenance ----------------------------------------------------------------------------

    def compact(self) -> MaintenanceReport:
        """Joins the small files of each folder; the manifest that swaps them is one step."""
        manifests = self._manifests.read()
        sizes = {self._relative(info): info.size for info in self._data_files()}
        groups: dict[str, list[str]] = {}
        for path in files_of(manifests):
            if sizes.get(path, 0) < self._settings.target_file_bytes * SMALL_SHARE:
                groups.setdefault(path.rpartition("/")[0], []).append(path)
        joined = {folder: paths for folder, paths in groups.items() if len(paths) > 1}
        if not joined:
            return MaintenanceReport()
        added = [self._join(folder, paths) for folder, paths in joined.items()]
        removed = [path for paths in joined.values() for path in paths]
        last = manifests[-1]
        by_pipeline = {each.pipeline: each for each in manifests}
        mine = by_pipeline[last.pipeline]
        self._manifests.write(
            Manifest(mine.pipeline, mine.batch_id, last.sequence + 1, mine.offsets, added, removed)
        )
        for path in removed:
            self._store.delete_file(f"{self._base}/{path}")
        size = sum(sizes[path] for path in removed)
        return MaintenanceReport(len(added), len(removed), size)

    def _join(self, folder: str, paths: Sequence[str]) -> str:
        name = f"{folder}/joined-{uuid.uuid4().hex}.parquet".lstrip("/")
        files = [f"{self._base}/{path}" for path in paths]
        schema = pa.unify_schemas([pq.read_schema(path, filesystem=self._store) for path in files])
        rows = ds.dataset(files, schema=schema, filesystem=self._store, format="parquet")
        with pq.ParquetWriter(
            f"{self._base}/{name}", schema, compression=COMPRESSION, filesystem=self._store
        ) as writer:
            for batch in rows.to_batches():
                writer.write_batch(batch)
        return name

    def vacuum(self, older_than_hours: float) -> MaintenanceReport:
        from time import time

        counted = set(files_of(self._manifests.read()))
        before = time() - older_than_hours * HOUR_S
        removed, size = 0, 0
        for info in self._data_files():
            if self._relative(info) in counted or info.mtime.timestamp() > before:
                continue
            self._store.delete_file(info.path)
            removed += 1
            size += info.size
        return MaintenanceReport(files_removed=removed, bytes_removed=size)

    def _data_files(self) -> list[fs.FileInfo]:
        selector = fs.FileSelector(self._base, allow_not_found=True, recursive=True)
        return [
            info
            for info in self._store.get_file_info(selector)
            if info.is_file and info.base_name.endswith(".parquet")
        ]

    def _relative(self, info: fs.FileInfo) -> str:
        return str(info.path).removeprefix(f"{self._base}/")


def parquet_files(location: str, options: dict[str, str] | None = None) -> list[str]:
    """The files that a reader of the folder should read, with their whole paths."""
    store, base = open_store(location, options)
    return [f"{base}/{path}" for path in files_of(Manifests(store, base).read())]


__all__ = ["FOLDER", "ParquetSink", "parquet_files"]
