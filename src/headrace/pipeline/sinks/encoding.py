"""How rows become records: keys and values."""

import base64
import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

import pyarrow as pa

from headrace.pipeline.sinks.table import SinkError

KEY: Final = "key"
VALUE: Final = "value"


@dataclass(frozen=True)
class Encoding:
    """How rows become records."""

    value: str = "json"
    """`json`: all columns as an object. `raw`: the column `value`."""
    key: tuple[str, ...] = ()
    """The columns of the key, as a JSON object; none = the column `key`, where there is one."""

    def check(self, schema: pa.Schema) -> None:
        """Raises `SinkError` for rows that cannot become records."""
        absent = [name for name in self.key if name not in schema.names]
        if absent:
            raise SinkError(
                f"there is no column {', '.join(absent)} for the key among {_named(schema)}"
            )
        if self.value == "raw":
            _check_raw(schema, VALUE, "value: raw needs it")
        if not self.key and KEY in schema.names:
            _check_raw(schema, KEY, "it is the record's key; rename it, or name key columns")

    def keys(self, rows: pa.RecordBatch) -> list[bytes | None]:
        if self.key:
            return [_json(row) for row in rows.select(list(self.key)).to_pylist()]
        if KEY in rows.schema.names:
            return _bytes(rows.column(KEY))
        return [None] * rows.num_rows

    def values(self, rows: pa.RecordBatch) -> list[bytes | None]:
        if self.value == "raw":
            return _bytes(rows.column(VALUE))
        left_out = () if self.key else (KEY,)
        columns = [name for name in rows.schema.names if name not in left_out]
        return [_json(row) for row in rows.select(columns).to_pylist()]


def _check_raw(schema: pa.Schema, name: str, why: str) -> None:
    if name not in schema.names:
        raise SinkError(f"there is no column {name} among {_named(schema)}: {why}")
    kind = schema.field(name).type
    if not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
        raise SinkError(f"column {name} is {kind}, not string or binary: {why}")


def _named(schema: pa.Schema) -> str:
    return ", ".join(schema.names)


def _bytes(column: pa.Array) -> list[bytes | None]:
    return column.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _json(row: dict[str, object]) -> bytes:
    return json.dumps(row, default=_plain, ensure_ascii=False, separators=(",", ":")).encode()


def _plain(value: object) -> object:
    """What JSON has no type for, as Spark's to_json writes it."""
    match value:
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case timedelta():
            return value.total_seconds()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
