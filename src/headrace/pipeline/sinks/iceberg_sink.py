"""Iceberg tables: tasks write files, the driver commits them through pyiceberg, without a JVM.

The transaction that adds the files also sets a property of the table with the pipeline's batch and
offsets, so both are committed or neither is. The snapshot has the same values, for the history.
"""

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.expressions import And, BooleanExpression, EqualTo, In, IsNaN, Or
from pyiceberg.table import Table, Transaction

from headrace.client.results import TopicPartition
from headrace.pipeline.core.columns import DELETED
from headrace.pipeline.core.offsets import offsets_from_json, offsets_to_json
from headrace.pipeline.sinks import iceberg_maintenance as maintenance
from headrace.pipeline.sinks.commit_retries import commit_with_retries
from headrace.pipeline.sinks.data_files import FileTask
from headrace.pipeline.sinks.file_stores import open_store
from headrace.pipeline.sinks.iceberg_maintenance import without_retries
from headrace.pipeline.sinks.orphan_files import task_prefix
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

PROPERTY: Final = "headrace."
KEYS_PER_FILTER: Final = 10_000


def open_catalog(warehouse: str, properties: Mapping[str, str]) -> Catalog:
    """The catalog of the spec, or a SQL catalog in a file beside the tables."""
    if properties:
        return load_catalog("headrace", **dict(properties))
    store, base = open_store(warehouse, None)
    store.create_dir(base, recursive=True)
    return load_catalog(
        "headrace", type="sql", uri=f"sqlite:///{base}/catalog.db", warehouse=f"file://{base}"
    )


class IcebergSink:
    """One Iceberg table; `settings.location` is `namespace.table`."""

    def __init__(
        self, settings: TableSettings, *, warehouse: str, catalog: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self._warehouse = warehouse
        self._properties = catalog
        self._schema: pa.Schema | None = None

    def _open_catalog(self) -> Catalog:
        try:
            return open_catalog(self._warehouse, self._properties)
        except Exception as error:
            raise SinkError(f"cannot open the Iceberg catalog: {error}") from error

    def _open_table(self) -> Table | None:
        try:
            return self._open_catalog().load_table(self._settings.location)
        except NoSuchTableError:
            return None

    def _open_existing(self) -> Table:
        return existing_table(self._open_table(), self._settings.location)

    # --- commits ---------------------------------------------------------------------------------

    def last_commit(
        self, pipeline: str, partitions: Sequence[TopicPartition]
    ) -> CommittedBatch | None:
        table = self._open_table()
        return None if table is None else _committed(table, pipeline)

    def writers(self) -> dict[str, set[str]]:
        table = self._open_table()
        if table is None:
            return {}
        names = [key.removeprefix(PROPERTY) for key in table.properties if key.startswith(PROPERTY)]
        commits = {name: _committed(table, name) for name in names}
        return {
            name: {each.topic for each in commit.offsets}
            for name, commit in commits.items()
            if commit is not None
        }

    # --- schema ---------------------------------------------------------------------------------

    def prepare(self, schema: pa.Schema) -> None:
        settings = self._settings
        rows = table_columns(schema, settings, kind="iceberg")
        for name in settings.key:
            if pa.types.is_nested(rows.field(name).type):
                raise SinkError(
                    f"{settings.location}: rows cannot be merged by {name}, which is "
                    f"{rows.field(name).type}: take its fields into columns of their own"
                )
        table = self._open_table()
        if table is None:
            table = self._create(rows)
        self._check_partitions(table)
        wanted, added = evolved(
            _without_ids(table.schema().as_arrow()),
            rows,
            add_columns=settings.add_columns,
            where=settings.location,
        )
        if added:
            with table.update_schema() as update:
                update.union_by_name(wanted)
        self._schema = wanted

    def _create(self, rows: pa.Schema) -> Table:
        catalog = self._open_catalog()
        name = self._settings.location
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(name.rpartition(".")[0])
        # Another run may create the table at the same time; the caller checks the one that exists.
        # One transaction: a crash must not leave a table without its partitioning.
        with (
            suppress(TableAlreadyExistsError, CommitFailedException),
            catalog.create_table_transaction(name, rows) as creation,
        ):
            if self._settings.partition_by:
                with creation.update_spec() as update:
                    for column in self._settings.partition_by:
                        update.add_identity(column)
        return self._open_existing()

    def _check_partitions(self, table: Table) -> None:
        """Raises `SinkError` if tasks would write files for other partitions than the table has.

        pyiceberg writes the rows of a merge, so a merge works with any partitioning.
        """
        settings = self._settings
        columns = {field.field_id: field.name for field in table.schema().fields}
        there = [f"{each.transform} of {columns[each.source_id]}" for each in table.spec().fields]
        wanted = [f"identity of {name}" for name in settings.partition_by]
        if settings.mode is Mode.APPEND and there != wanted:
            raise SinkError(
                f"{settings.location} is partitioned by {', '.join(there) or 'nothing'}, the spec "
                f"says {', '.join(wanted) or 'nothing'}. Correct the spec, or write to another "
                "table"
            )

    # --- writing --------------------------------------------------------------------------------

    def write_task(self, batch: BatchInfo) -> TaskWriter:
        assert self._schema is not None, "prepare comes first"
        settings = self._settings
        name = task_prefix(batch.pipeline, batch.batch_id)
        if settings.mode is Mode.MERGE:
            return FileTask(
                self._staging(batch),
                name,
                with_deleted_column(self._schema),
                storage_options=settings.storage_options,
            )
        return FileTask(
            f"{self._open_existing().location()}/data",
            name,
            self._schema,
            settings.partition_by,
            keep_partition_columns=True,
            target_file_bytes=settings.target_file_bytes,
            storage_options=settings.storage_options,
        )

    def _staging(self, batch: BatchInfo) -> str:
        prefix = task_prefix(batch.pipeline, batch.batch_id)
        return f"{self._open_existing().location()}/_headrace/{prefix}"

    def _clear_staging(self, batch: BatchInfo) -> None:
        if self._settings.mode is Mode.MERGE:
            store, base = open_store(self._staging(batch), self._settings.storage_options)
            store.delete_dir_contents(base, missing_dir_ok=True)

    def commit(self, batch: BatchInfo, written: Sequence[WrittenFile]) -> CommittedBatch:
        """Commits the batch once. If another writer was faster, rereads the table and retries."""
        return commit_with_retries(
            lambda: self._commit_unless_committed(batch, written),
            (CommitFailedException, ValidationException),
            where=self._settings.location,
            batch=batch,
        )

    def _commit_unless_committed(
        self, batch: BatchInfo, written: Sequence[WrittenFile]
    ) -> CommittedBatch:
        """Raises one of pyiceberg's two errors of a conflict if another writer was faster."""
        table = without_retries(self._open_existing())
        before = _committed(table, batch.pipeline)
        if before is not None and before.batch_id >= batch.batch_id:
            return before  # committed before a crash
        try:
            self._commit_files(table, batch, before, written)
        except OSError as error:
            raise SinkError(f"{self._settings.location} cannot be written: {error}") from error
        after = _committed(self._open_existing(), batch.pipeline)
        assert after is not None
        self._clear_staging(batch)
        return after

    def _commit_files(
        self,
        table: Table,
        batch: BatchInfo,
        before: CommittedBatch | None,
        written: Sequence[WrittenFile],
    ) -> None:
        offsets = {**(before.offsets if before is not None else {}), **batch.ends}
        summary = _summary(batch, offsets)
        with table.transaction() as transaction:
            if self._settings.mode is Mode.MERGE:
                self._merge(transaction, batch, written, summary)
            else:
                paths = [f"{table.location()}/data/{each.path}" for each in written if each.rows]
                if paths:
                    transaction.add_files(
                        paths, snapshot_properties=summary, check_duplicate_files=False
                    )
            held = {"batch": batch.batch_id, "offsets": json.loads(offsets_to_json(offsets))}
            transaction.set_properties({f"{PROPERTY}{batch.pipeline}": json.dumps(held)})

    def _merge(
        self,
        transaction: Transaction,
        batch: BatchInfo,
        written: Sequence[WrittenFile],
        summary: dict[str, str],
    ) -> None:
        """Deletes the rows of all keys in the batch, then appends the batch's rows."""
        store, base = open_store(self._staging(batch), self._settings.storage_options)
        paths = [f"{base}/{each.path}" for each in written if each.rows]
        if not paths:
            return
        rows: pa.Table = ds.dataset(paths, filesystem=store, format="parquet").to_table()
        keys = rows.select(list(self._settings.key)).to_pylist()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # keys that are new match no row
            for at in range(0, len(keys), KEYS_PER_FILTER):
                some = _one_of_keys(keys[at : at + KEYS_PER_FILTER])
                transaction.delete(some, snapshot_properties=summary)
        kept = rows.filter(pc.invert(rows.column(DELETED))).drop_columns([DELETED])
        if kept.num_rows:
            transaction.append(kept, snapshot_properties=summary)

    # --- maintenance ----------------------------------------------------------------------------

    def compact(self) -> MaintenanceReport:
        return maintenance.compact(self._open_existing, self._settings)

    def vacuum(self, older_than_hours: float) -> MaintenanceReport:
        return maintenance.vacuum(
            self._open_existing, self._settings, older_than_hours, self._last_batch
        )

    def _last_batch(self, pipeline: str) -> int | None:
        held = self.last_commit(pipeline, ())
        return None if held is None else held.batch_id


def _summary(batch: BatchInfo, offsets: Mapping[TopicPartition, int]) -> dict[str, str]:
    return {
        "headrace.pipeline": batch.pipeline,
        "headrace.batch": str(batch.batch_id),
        "headrace.offsets": offsets_to_json(offsets),
    }


def _committed(table: Table, pipeline: str) -> CommittedBatch | None:
    text = table.properties.get(f"{PROPERTY}{pipeline}")
    if text is None:
        return None
    held = json.loads(text)
    snapshot = table.current_snapshot()
    version = str(snapshot.snapshot_id) if snapshot is not None else ""
    return CommittedBatch(held["batch"], offsets_from_json(json.dumps(held["offsets"])), version)


def _one_of_keys(keys: Sequence[Mapping[str, Any]]) -> BooleanExpression:
    """The rows with one of these keys."""
    names = list(keys[0])
    if len(names) == 1:
        (name,) = names
        wanted = [key[name] for key in keys if not _is_nan(key[name])]
        found: BooleanExpression = In(name, wanted)  # type: ignore[call-arg, arg-type]
        if len(wanted) == len(keys):
            return found
        return Or(found, IsNaN(name)) if wanted else IsNaN(name)  # type: ignore[arg-type, call-arg]
    whole = [_equals_key(key) for key in keys]
    return whole[0] if len(whole) == 1 else Or(whole[0], whole[1], *whole[2:])


def _equals_key(key: Mapping[str, Any]) -> BooleanExpression:
    parts: list[BooleanExpression] = [
        IsNaN(name) if _is_nan(value) else EqualTo(name, value)  # type: ignore[call-arg, arg-type]
        for name, value in key.items()
    ]
    return And(parts[0], parts[1], *parts[2:])


def _is_nan(value: object) -> bool:
    """NaN is not equal to itself, but Spark and Delta treat it as one key."""
    return isinstance(value, float) and math.isnan(value)


def _without_ids(schema: pa.Schema) -> pa.Schema:
    """The columns without Iceberg's ids, which files from tasks do not have."""
    return pa.schema([_field_without_ids(field) for field in schema])


def _field_without_ids(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _type_without_ids(field.type), field.nullable)


def _type_without_ids(kind: pa.DataType) -> pa.DataType:
    """The type as in Spark's rows; nested fields carry ids, too."""
    if pa.types.is_struct(kind):
        return pa.struct([_field_without_ids(kind.field(at)) for at in range(kind.num_fields)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_field_without_ids(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_field_without_ids(kind.key_field), _field_without_ids(kind.item_field))
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind
