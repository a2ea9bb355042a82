"""A directory of Parquet files with a manifest per batch: exactly-once without a table format.

`parquet_files` lists the current files. Tools that read every file of the directory see the same
rows, except between a crash and the next batch, when files of an unfinished batch may exist.
"""

import time
import uuid
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from headrace.client.results import TopicPartition
from headrace.pipeline.sinks.compaction_plan import packed
from headrace.pipeline.sinks.data_files import COMPRESSION, FileTask
from headrace.pipeline.sinks.file_stores import open_store
from headrace.pipeline.sinks.manifests import (
    FOLDER,
    Manifest,
    Manifests,
    SequenceTaken,
    files_of,
)
from headrace.pipeline.sinks.orphan_files import OrphanFiles, task_prefix
from headrace.pipeline.sinks.partition_values import check_types, partition_columns
from headrace.pipeline.sinks.schema_evolution import check_columns, evolved
from headrace.pipeline.sinks.table_sink import (
    BatchInfo,
    CommittedBatch,
    MaintenanceReport,
    Mode,
    SinkError,
    TableSettings,
    TaskWriter,
    WrittenFile,
)

WRITE_TRIES: Final = 20
JOINED: Final = "joined-"

R = TypeVar("R")


class ParquetSink:
    """One directory of Parquet files."""

    def __init__(self, settings: TableSettings) -> None:
        if settings.mode is not Mode.APPEND:
            raise SinkError(
                f"{settings.location}: a directory of Parquet files can only be appended to. "
                "Use format: delta or iceberg for mode: merge"
            )
        self._settings = settings
        self._store, self._base = open_store(settings.location, settings.storage_options)
        self._manifests = Manifests(self._store, self._base)
        self._schema: pa.Schema | None = None

    # --- commits --------------------------------------------------------------------------------

    def last_commit(
        self, pipeline: str, partitions: Sequence[TopicPartition]
    ) -> CommittedBatch | None:
        return _last_commit_of(self._manifests.read(), pipeline)

    def writers(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for manifest in self._manifests.read():
            topics = found.setdefault(manifest.pipeline, set())
            topics.update(each.topic for each in manifest.offsets)
        return found

    def prepare(self, schema: pa.Schema) -> None:
        """Accepts new columns and refuses columns of another type.

        New files have all columns so far, so that the newest file has the full schema.
        """
        settings = self._settings
        check_columns(
            schema, settings.partition_by, where=settings.location, correct="partition_by"
        )
        check_types(schema, settings.partition_by, where=settings.location, kind="parquet")
        self._schema = schema
        files = files_of(self._manifests.read())
        if not files:
            return
        partitioned = partition_columns(files[-1])
        if partitioned != settings.partition_by:
            raise SinkError(
                f"{settings.location} is partitioned by {', '.join(partitioned) or 'nothing'}, the "
                f"spec says {', '.join(settings.partition_by) or 'nothing'}. Correct the spec, or "
                "write to another directory"
            )
        rows = pa.schema([each for each in schema if each.name not in settings.partition_by])
        wanted, _ = evolved(
            self._schema_of(files), rows, add_columns=settings.add_columns, where=settings.location
        )
        self._schema = pa.schema([*wanted, *map(schema.field, settings.partition_by)])

    def _schema_of(self, files: Sequence[str]) -> pa.Schema:
        """The columns of the newest file of a batch, and of the files that compaction made."""
        joined = [path for path in files if _is_joined(path)]
        written = [path for path in files if not _is_joined(path)]
        found: dict[str, pa.Field] = {}
        for path in (*written[-1:], *reversed(joined)):
            for field in pq.read_schema(f"{self._base}/{path}", filesystem=self._store):
                found.setdefault(field.name, field)
        return pa.schema(found.values())

    # --- writing --------------------------------------------------------------------------------

    def write_task(self, batch: BatchInfo) -> TaskWriter:
        assert self._schema is not None, "prepare comes first"
        settings = self._settings
        # Files of this batch stay: another run may be about to commit them.
        self._remove_uncommitted(batch.pipeline, batch.batch_id - 1)
        return FileTask(
            settings.location,
            task_prefix(batch.pipeline, batch.batch_id),
            self._schema,
            settings.partition_by,
            empty_is_null=settings.partition_by,
            target_file_bytes=settings.target_file_bytes,
            storage_options=settings.storage_options,
        )

    def _remove_uncommitted(self, pipeline: str, batch_id: int) -> None:
        """Deletes files that failed attempts of a committed batch have left.

        A worker that Spark considered lost may still have written a file of the previous batch.
        """
        prefix = task_prefix(pipeline, batch_id)
        counted = set(files_of(self._manifests.read()))
        for info in self._data_files():
            mine = info.base_name.rpartition("-")[0] == prefix
            if mine and self._relative(info) not in counted:
                with suppress(FileNotFoundError):
                    self._store.delete_file(info.path)

    def commit(self, batch: BatchInfo, written: Sequence[WrittenFile]) -> CommittedBatch:
        """Commits the batch once. If another writer was faster, rereads the table and retries."""

        def swap(manifests: Sequence[Manifest], sequence: int) -> Manifest | CommittedBatch:
            before = _last_commit_of(manifests, batch.pipeline)
            if before is not None and before.batch_id >= batch.batch_id:
                return before  # committed before a crash
            offsets = {**(before.offsets if before is not None else {}), **batch.ends}
            added = [each.path for each in written if each.rows]
            return Manifest(batch.pipeline, batch.batch_id, sequence, offsets, added)

        done = self._write_manifest(swap)
        self._remove_uncommitted(batch.pipeline, batch.batch_id)
        if isinstance(done, Manifest):
            return CommittedBatch(done.batch_id, done.offsets, str(done.sequence))
        return done

    def _write_manifest(
        self, make: Callable[[Sequence[Manifest], int], Manifest | R]
    ) -> Manifest | R:
        """Writes the manifest that `make` returns for the current ones; it may return another
        result instead. Calls `make` again if another writer was faster."""
        for _ in range(WRITE_TRIES):
            manifests = self._manifests.read()
            made = make(manifests, manifests[-1].sequence + 1 if manifests else 0)
            if not isinstance(made, Manifest):
                return made
            try:
                self._manifests.write(made)
            except SequenceTaken as error:
                taken = error
            else:
                return made
        raise taken

    # --- maintenance ----------------------------------------------------------------------------

    def compact(self) -> MaintenanceReport:
        """Joins the small files of each directory; one manifest replaces them atomically."""
        sizes = {self._relative(info): info.size for info in self._data_files()}
        manifests = self._manifests.read()
        self._remove_replaced(manifests, sizes)
        folders: dict[str, list[str]] = {}
        for path in files_of(manifests):
            folders.setdefault(path.rpartition("/")[0], []).append(path)
        done = MaintenanceReport()
        for folder, paths in folders.items():
            known = [(path, sizes[path]) for path in paths if path in sizes]
            for group in packed(known, self._settings.target_file_bytes):
                if self._replace_files(group, self._join_files(folder, group)):
                    size = sum(sizes[path] for path in group)
                    done = MaintenanceReport(
                        done.files_added + 1,
                        done.files_removed + len(group),
                        done.bytes_removed + size,
                    )
        return done

    def _replace_files(self, old: Sequence[str], new: str) -> bool:
        """Whether the new file has replaced the old ones, which are then deleted."""

        def swap(manifests: Sequence[Manifest], sequence: int) -> Manifest | None:
            if not set(old) <= set(files_of(manifests)):
                return None  # another compaction has joined them
            last = manifests[-1]
            return Manifest(last.pipeline, last.batch_id, sequence, last.offsets, [new], old)

        if self._write_manifest(swap) is None:
            self._delete_files([new])
            return False
        self._delete_files(old)
        return True

    def _remove_replaced(self, manifests: Sequence[Manifest], there: Container[str]) -> None:
        """Deletes replaced files that a killed compaction has left."""
        counted = set(files_of(manifests))
        removed = {path for each in manifests for path in each.removed}
        self._delete_files([path for path in removed - counted if path in there])

    def _delete_files(self, paths: Iterable[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                self._store.delete_file(f"{self._base}/{path}")

    def _join_files(self, folder: str, paths: Sequence[str]) -> str:
        name = f"{folder}/{JOINED}{uuid.uuid4().hex}.parquet".lstrip("/")
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
        # Listed before the manifests are read, so that files committed in between are kept.
        listed = self._data_files()
        manifests = self._manifests.read()
        self._remove_replaced(manifests, {self._relative(info) for info in listed})
        counted = set(files_of(manifests))
        leftovers = OrphanFiles(older_than_hours, time.time(), self._last_batch)
        gone = [
            info
            for info in listed
            if self._relative(info) not in counted
            and leftovers.may_be_deleted(info.base_name, info.mtime.timestamp())
        ]
        self._delete_files(self._relative(info) for info in gone)
        return MaintenanceReport(
            files_removed=len(gone), bytes_removed=sum(info.size for info in gone)
        )

    def _last_batch(self, pipeline: str) -> int | None:
        held = self.last_commit(pipeline, ())
        return None if held is None else held.batch_id

    def _data_files(self) -> list[fs.FileInfo]:
        selector = fs.FileSelector(self._base, allow_not_found=True, recursive=True)
        return [
            info
            for info in self._store.get_file_info(selector)
            if info.is_file and info.base_name.endswith(".parquet")
        ]

    def _relative(self, info: fs.FileInfo) -> str:
        return str(info.path).removeprefix(f"{self._base}/")


def _is_joined(path: str) -> bool:
    return path.rpartition("/")[2].startswith(JOINED)


def _last_commit_of(manifests: Sequence[Manifest], pipeline: str) -> CommittedBatch | None:
    for each in reversed(manifests):
        if each.pipeline == pipeline:
            return CommittedBatch(each.batch_id, each.offsets, str(each.sequence))
    return None


def parquet_files(location: str, options: dict[str, str] | None = None) -> list[str]:
    """The current files of the directory, with their full paths."""
    store, base = open_store(location, options)
    return [f"{base}/{path}" for path in files_of(Manifests(store, base).read())]


__all__ = ["FOLDER", "ParquetSink", "parquet_files"]
