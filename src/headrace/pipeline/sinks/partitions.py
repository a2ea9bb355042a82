"""What a table can be partitioned by, and what its values are called. Pure.

Values are texts in the names of folders, which have an end, and in Delta's log. A text that would
come back as another one, or that no folder can be named for, makes its record a bad one before it
gets here: `partition_rules` sees to that.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.partition_types import problems
from headrace.pipeline.sinks.table_sink import SinkError

MAX_FOLDER_CHARS: Final = 255
"""What file systems allow."""
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
CHARS_PER_BYTE: Final = 3
"""Of what cannot be in the name of a folder as it is: %2F."""


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
        # Arrow's own texts of small ones have exponents (1E-10).
        values = column.to_pylist()
        return pa.array([None if each is None else f"{each:f}" for each in values], pa.string())
    return column.cast(pa.string())


def without_empty(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """With a null for each empty text in these columns: some readers would find one, and some the
    other."""
    for name in names:
        at = rows.schema.get_field_index(name)
        if pa.types.is_string(rows.schema.field(at).type):
            column = rows.column(at)
            filled = pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
            rows = rows.set_column(at, rows.schema.field(at), filled)
    return rows


def partition_columns(path: str) -> tuple[str, ...]:
    """The columns that the folders of a file are named for."""
    return tuple(unquote(each.partition("=")[0]) for each in path.split("/")[:-1])


def folder(name: str, value: str | None) -> str:
    """Hive's way: an empty text has no folder of its own, and shares that of null."""
    found = f"{quote(name, safe='')}={quote(value, safe='') if value else NULL_PARTITION}"
    if len(found) > MAX_FOLDER_CHARS:
        raise SinkError(
            f"column {name} has a value that is too long for the name of a folder ({len(found)} "
            f"characters, {MAX_FOLDER_CHARS} are possible): {value!r:.60}... Partition by "
            f"something shorter"
        )
    return found


def room(name: str) -> int:
    """How many characters a value may have in the name of a folder, as they are written there."""
    return MAX_FOLDER_CHARS - len(quote(name, safe="")) - 1


def doubtful(rows: pa.RecordBatch, partition_by: Sequence[str]) -> pa.Array:
    """The rows that have a text which may not do; `partition_rules` judges them."""
    found = pa.repeat(pa.scalar(False), rows.num_rows)
    for name in partition_by:
        column = rows.column(rows.schema.get_field_index(name))
        if not pa.types.is_string(column.type):
            continue
        long = pc.greater(pc.binary_length(column), room(name) // CHARS_PER_BYTE)
        doubt = pc.or_(long, pc.equal(column, NULL_PARTITION))
        found = pc.or_(found, pc.fill_null(doubt, False))
    return found
