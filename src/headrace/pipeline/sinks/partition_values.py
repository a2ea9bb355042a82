"""Partition columns of a table, and the texts of partition values. Pure.

Partition values are texts in the names of directories, whose length is limited, and in Delta's
log. `partition_rules` has already turned rows into bad records whose value would be read back as
another one, or is too long for the name of a directory.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.partition_types import problems
from headrace.pipeline.sinks.table_sink import SinkError

MAX_DIRECTORY_CHARS: Final = 255
"""The limit of file systems."""
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
CHARS_PER_BYTE: Final = 3
"""Characters of an escaped byte in the name of a directory: %2F."""


def check_types(rows: pa.Schema, partition_by: Sequence[str], *, where: str, kind: str) -> None:
    """Raises `SinkError` for columns whose values cannot be partitions of such a table."""
    columns = {field.name: str(field.type) for field in rows}
    for _, message in problems(columns, partition_by, kind):
        raise SinkError(f"{where}: {message}")


def partition_texts(column: pa.Array) -> pa.Array:
    """Partition values as Delta and Hive write them; null stays null."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return pc.if_else(column, "true", "false")
    if pa.types.is_timestamp(kind):
        return pc.strftime(column.cast(pa.timestamp("us", kind.tz)), "%Y-%m-%d %H:%M:%S")
    if pa.types.is_decimal(kind):
        # Arrow writes small decimals with exponents (1E-10).
        values = column.to_pylist()
        return pa.array([None if each is None else f"{each:f}" for each in values], pa.string())
    return column.cast(pa.string())


def without_empty(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The rows with null for each empty text in these columns.

    Some readers return null for an empty partition value, others the empty text.
    """
    for name in names:
        at = rows.schema.get_field_index(name)
        if pa.types.is_string(rows.schema.field(at).type):
            column = rows.column(at)
            filled = pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
            rows = rows.set_column(at, rows.schema.field(at), filled)
    return rows


def partition_columns(path: str) -> tuple[str, ...]:
    """The partition columns in the path of a file."""
    return tuple(unquote(each.partition("=")[0]) for each in path.split("/")[:-1])


def partition_directory(name: str, value: str | None) -> str:
    """The directory of a partition value, as Hive names it. An empty text shares that of null."""
    found = f"{quote(name, safe='')}={quote(value, safe='') if value else NULL_PARTITION}"
    if len(found) > MAX_DIRECTORY_CHARS:
        raise SinkError(
            f"column {name} has a value that is too long for the name of a directory "
            f"({len(found)} characters, at most {MAX_DIRECTORY_CHARS} are allowed): "
            f"{value!r:.60}... Partition by a shorter value"
        )
    return found


def max_value_chars(name: str) -> int:
    """The number of characters that a value may have in the name of a directory, after escaping."""
    return MAX_DIRECTORY_CHARS - len(quote(name, safe="")) - 1


def suspect_partition_values(rows: pa.RecordBatch, partition_by: Sequence[str]) -> pa.Array:
    """Marks rows whose partition value may be invalid; `partition_rules` decides."""
    found = pa.repeat(pa.scalar(False), rows.num_rows)
    for name in partition_by:
        column = rows.column(rows.schema.get_field_index(name))
        if not pa.types.is_string(column.type):
            continue
        long = pc.greater(pc.binary_length(column), max_value_chars(name) // CHARS_PER_BYTE)
        doubt = pc.or_(long, pc.equal(column, NULL_PARTITION))
        found = pc.or_(found, pc.fill_null(doubt, False))
    return found
