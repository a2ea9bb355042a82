"""Compaction and vacuum of Iceberg tables.

pyiceberg cannot rewrite files, but it can replace them: one snapshot deletes the small files and
adds the joined one. The table's properties, which hold the pipelines' positions, stay unchanged. If
another writer commits in between, the swap is retried on the new state of the table, as long as it
still has all the replaced files and no rows of them were deleted.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table, TableProperties

from headrace.pipeline.sinks.compaction_plan import packed
from headrace.pipeline.sinks.data_files import COMPRESSION
from headrace.pipeline.sinks.file_stores import open_store, path_of
from headrace.pipeline.sinks.orphan_files import OrphanFiles
from headrace.pipeline.sinks.table_sink import MaintenanceReport, SinkError, TableSettings

if TYPE_CHECKING:
    from pyiceberg.typedef import Record

SWAP_TRIES: Final = 20
SWAP_SUMMARY: Final = {"headrace.compaction": "true"}

OpenTable = Callable[[], Table]


def without_retries(table: Table) -> Table:
    """The table, with commits that fail if another writer was faster.

    pyiceberg would retry without reading the table again, and a batch that another run has
    committed meanwhile would be written twice. The property is changed in memory only.
    """
    table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
    return table


# --- joining ------------------------------------------------------------------------------------


def compact(open_table: OpenTable, settings: TableSettings) -> MaintenanceReport:
    """Joins small files of the same partition; one snapshot for each group of them."""
    table = open_table()
    store, _ = open_store(table.location(), settings.storage_options)
    done = MaintenanceReport()
    for group in _small_file_groups(table, settings.target_file_bytes):
        new = _join_files(table, store, group)
        old = {task.file.file_path for task in group}
        if not _try_swap(open_table, old, new):
            store.delete_file(path_of(new))
            continue
        size = sum(task.file.file_size_in_bytes for task in group)
        done = MaintenanceReport(
            done.files_added + 1, done.files_removed + len(group), done.bytes_removed + size
        )
    return done


def _small_file_groups(table: Table, target_bytes: int) -> list[list[FileScanTask]]:
    """Groups of files to join, by partition, without files that have deleted rows."""
    partitions: dict[Record, list[FileScanTask]] = {}
    for task in table.scan().plan_files():
        if not task.delete_files and task.file.spec_id == table.spec().spec_id:
            partitions.setdefault(task.file.partition, []).append(task)
    return [
        group
        for tasks in partitions.values()
        for group in packed(((task, task.file.file_size_in_bytes) for task in tasks), target_bytes)
    ]


def _join_files(table: Table, store: fs.FileSystem, group: Sequence[FileScanTask]) -> str:
    """Writes one file with the rows of all, beside the first of them; returns its location."""
    folder = group[0].file.file_path.rpartition("/")[0]
    location = f"{folder}/joined-{uuid.uuid4().hex}.parquet"
    schema = table.schema().as_arrow()  # with Iceberg's ids of the columns
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    with (
        store.open_output_stream(path_of(location)) as out,
        pq.ParquetWriter(out, schema, compression=COMPRESSION) as writer,
    ):
        for batch in scan.to_record_batches(group):
            writer.write_table(pa.Table.from_batches([batch]).cast(schema))
    return location


def _try_swap(open_table: OpenTable, old: set[str], new: str) -> bool:
    """Whether the new file is now in the table in place of the old ones."""
    for _ in range(SWAP_TRIES):
        table = without_retries(open_table())
        found = [task for task in table.scan().plan_files() if task.file.file_path in old]
        if len(found) != len(old) or any(task.delete_files for task in found):
            return False  # rows were changed or removed meanwhile
        try:
            _swap_files(table, [task.file for task in found], new)
        except (CommitFailedException, ValidationException):
            continue
        return True
    raise SinkError(
        f"{'.'.join(table.name())}: cannot replace small files, because other writers commit too "
        "often. Compact when there are fewer writers"
    )


def _swap_files(table: Table, old: Iterable[DataFile], new: str) -> None:
    with (
        table.transaction() as transaction,
        transaction.update_snapshot(snapshot_properties=SWAP_SUMMARY).overwrite() as update,
    ):
        for file in old:
            update.delete_data_file(file)
        update.append_data_file(parquet_file_to_data_file(table.io, table.metadata, new))


# --- removing -----------------------------------------------------------------------------------


def vacuum(
    open_table: OpenTable,
    settings: TableSettings,
    older_than_hours: float,
    last_batch: Callable[[str], int | None],
) -> MaintenanceReport:
    """Expires old snapshots, then deletes the files that no snapshot names any more."""
    store, base = open_store(open_table().location(), settings.storage_options)
    # Listed before the table is read again, so that files committed in between are named.
    listed = [
        info for info in store.get_file_info(fs.FileSelector(base, recursive=True)) if info.is_file
    ]
    _expire_snapshots(open_table, older_than_hours)
    named = {path_of(each) for each in _referenced_files(open_table())}
    leftovers = OrphanFiles(older_than_hours, time.time(), last_batch)
    removed, size = 0, 0
    for info in listed:
        modified_s = info.mtime.timestamp() if info.mtime is not None else time.time()
        if info.path not in named and leftovers.may_be_deleted(info.path, modified_s):
            store.delete_file(info.path)
            removed += 1
            size += info.size or 0
    return MaintenanceReport(files_removed=removed, bytes_removed=size)


def _expire_snapshots(open_table: OpenTable, older_than_hours: float) -> None:
    limit = datetime.now(UTC) - timedelta(hours=older_than_hours)
    limit_ms = int(limit.timestamp() * 1000)
    for attempt in range(SWAP_TRIES):
        table = open_table()
        old = [each for each in table.snapshots() if each.timestamp_ms < limit_ms]
        if not {each.snapshot_id for each in old} - _branch_snapshots(table):
            return
        try:
            table.maintenance.expire_snapshots().older_than(limit).commit()
        except CommitFailedException:
            if attempt == SWAP_TRIES - 1:
                raise
        else:
            return


def _branch_snapshots(table: Table) -> set[int]:
    """Snapshots that branches and tags hold; they never expire."""
    return {each.snapshot_id for each in table.metadata.refs.values()}


def _referenced_files(table: Table) -> Iterable[str]:
    """Every file that the table's metadata refers to."""
    yield table.metadata_location
    yield from (each.metadata_file for each in table.metadata.metadata_log)
    yield from (each.statistics_path for each in table.metadata.statistics)
    manifests = {}
    for snapshot in table.snapshots():
        yield snapshot.manifest_list
        manifests.update({each.manifest_path: each for each in snapshot.manifests(table.io)})
    for path, manifest in manifests.items():
        yield path
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            yield entry.data_file.file_path
