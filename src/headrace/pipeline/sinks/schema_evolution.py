"""Schema evolution: new columns are added, conflicting types are refused. Pure."""

from collections.abc import Iterable

import pyarrow as pa

from headrace.pipeline.core.columns import DELETED
from headrace.pipeline.sinks.partition_values import check_types
from headrace.pipeline.sinks.table_sink import SinkError, TableSettings

_WIDER: dict[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
}


def check_columns(rows: pa.Schema, names: Iterable[str], *, where: str, correct: str) -> None:
    """Raises `SinkError` if the rows lack a column that the spec names in `correct`."""
    for name in names:
        if name not in rows.names:
            raise SinkError(
                f"{where}: the rows have no column {name}, only "
                f"{', '.join(rows.names)}; correct {correct} or the transform"
            )


def table_columns(output: pa.Schema, settings: TableSettings, *, kind: str) -> pa.Schema:
    """The columns that the flow's output has in the table.

    Raises `SinkError` if the table's key or partitions need other columns or types.
    """
    rows = pa.schema([field for field in output if field.name != DELETED])
    check_columns(
        rows,
        (*settings.partition_by, *settings.key),
        where=settings.location,
        correct="key or partition_by",
    )
    check_types(rows, settings.partition_by, where=settings.location, kind=kind)
    return rows


def with_deleted_column(schema: pa.Schema) -> pa.Schema:
    """The schema of staged rows, which a merge inserts, updates or deletes."""
    return pa.schema([*schema, pa.field(DELETED, pa.bool_())])


def evolved(
    table: pa.Schema, rows: pa.Schema, *, add_columns: bool, where: str
) -> tuple[pa.Schema, list[pa.Field]]:
    """The schema that the table needs for these rows, and the columns that it lacks now.

    A column of another type is refused, unless the rows' type is one that fits into the table's.
    """
    added: list[pa.Field] = []
    spelled = {name.lower(): name for name in table.names}
    for field in rows:
        at = table.get_field_index(field.name)
        if at < 0 and field.name.lower() in spelled:
            raise SinkError(
                f"{where}: column {field.name} is {spelled[field.name.lower()]} in the table: most "
                "readers ignore case. Rename it in the transform"
            )
        if at < 0:
            added.append(field.with_nullable(True))
            continue
        there = table.field(at).type
        if not fits(field.type, there):
            raise SinkError(
                f"{where}: column {field.name} is {there} in the table and {field.type} in the "
                f"rows. Cast it in the transform, or write to another table"
            )
    if added and not add_columns:
        names = ", ".join(field.name for field in added)
        raise SinkError(
            f"{where}: the rows have columns that the table lacks ({names}). Set "
            "schema_evolution: add_columns, or leave them out in the transform"
        )
    return pa.schema([*table, *added]), added


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of one type is a value of the other."""
    if given.equals(wanted) or wanted in _WIDER.get(given, ()):
        return True
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None)
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        names = [wanted.field(at).name for at in range(wanted.num_fields)]
        return all(
            given.field(at).name in names
            and fits(given.field(at).type, wanted.field(given.field(at).name).type)
            for at in range(given.num_fields)
        )
    if pa.types.is_list(given) and pa.types.is_list(wanted):
        return fits(given.value_type, wanted.value_type)
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return fits(given.key_type, wanted.key_type) and fits(given.item_type, wanted.item_type)
    text = (pa.types.is_string, pa.types.is_large_string)
    raw = (pa.types.is_binary, pa.types.is_large_binary)
    return any(
        any(is_a(given) for is_a in family) and any(is_a(wanted) for is_a in family)
        for family in (text, raw)
    )


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with exactly these columns in this order; missing columns are null."""
    columns = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
        else:
            column = batch.column(at)
            columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
