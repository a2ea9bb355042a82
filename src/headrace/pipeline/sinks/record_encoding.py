"""Encodes rows as the keys and values of records."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.pipeline.sinks.json_text import check_type, objects
from headrace.pipeline.sinks.table_sink import SinkError

KEY: Final = "key"
VALUE: Final = "value"


@dataclass(frozen=True)
class Encoding:
    """The encoding of keys and values."""

    value: str = "json"
    """`json`: all columns as an object. `raw`: the column `value`."""
    key: tuple[str, ...] = ()
    """The columns of the key, as a JSON object; if empty, the column `key`, if there is one."""

    def check(self, schema: pa.Schema) -> None:
        """Raises `SinkError` for rows that cannot become records."""
        absent = [name for name in self.key if name not in schema.names]
        if absent:
            raise SinkError(
                f"the rows have no column {', '.join(absent)} for the key, "
                f"only {_column_names(schema)}"
            )
        if self.value == "raw":
            _check_raw(schema, VALUE, "value: raw needs it")
        written = list(self.key) if self.value == "raw" else schema.names
        for name in written:
            check_type(name, schema.field(name).type)
        if not self.key and KEY in schema.names:
            _check_raw(schema, KEY, "it is the record's key; rename it, or name key columns")

    def keys(self, rows: pa.RecordBatch) -> list[bytes | None]:
        if self.key:
            return list(objects(rows.select(list(self.key))))
        if KEY in rows.schema.names:
            return _bytes(rows.column(KEY))
        return [None] * rows.num_rows

    def values(self, rows: pa.RecordBatch) -> list[bytes | None]:
        if self.value == "raw":
            return _bytes(rows.column(VALUE))
        left_out = () if self.key else (KEY,)
        columns = [name for name in rows.schema.names if name not in left_out]
        return list(objects(rows.select(columns)))


def _check_raw(schema: pa.Schema, name: str, why: str) -> None:
    if name not in schema.names:
        raise SinkError(f"the rows have no column {name}, only {_column_names(schema)}: {why}")
    kind = schema.field(name).type
    if not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
        raise SinkError(f"column {name} is {kind}, not string or binary: {why}")


def _column_names(schema: pa.Schema) -> str:
    return ", ".join(schema.names)


def _bytes(column: pa.Array) -> list[bytes | None]:
    return column.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]
