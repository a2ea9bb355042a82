"""Rows as JSON texts, exactly as Spark's `to_json` writes them, or not at all.

The conversion works by column, not by row: a decimal keeps all its digits, a map becomes an object,
and a date beyond the year 9999, for which Python has no type, is written as well.
"""

import base64
import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final

import pyarrow as pa

from headrace.pipeline.sinks.table_sink import SinkError

NULL: Final = "null"

Plain = Callable[[Any], str]


def objects(rows: pa.RecordBatch) -> list[bytes]:
    """Each row as a JSON object."""
    if not rows.num_columns:
        return [b"{}"] * rows.num_rows
    names = [encode_basestring(name) for name in rows.schema.names]
    columns = [texts(column) for column in rows.columns]
    return [_object(names, row).encode() for row in zip(*columns, strict=True)]


def texts(column: pa.Array) -> list[str]:
    """Each value as JSON."""
    kind = column.type
    if not len(column):
        return []
    if pa.types.is_struct(kind):
        return _struct_texts(column)
    if pa.types.is_map(kind):
        return _map_texts(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_texts(column)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _time_texts(column)
    plain = _plain(kind)
    return [NULL if each is None else plain(each) for each in column.to_pylist()]


def check_type(name: str, kind: pa.DataType) -> None:
    """Raises `SinkError` for a column that JSON cannot hold."""
    if pa.types.is_nested(kind):
        for at in range(kind.num_fields):
            check_type(name, kind.field(at).type)
    elif not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)) and kind != pa.null():
        try:
            _plain(kind)
        except KeyError:
            raise SinkError(
                f"column {name} is {kind}, which cannot be written as JSON: cast it in the "
                "transform, or leave it out"
            ) from None


def _object(names: Iterable[str], values: Iterable[str]) -> str:
    fields = (f"{name}:{value}" for name, value in zip(names, values, strict=True))
    return "{" + ",".join(fields) + "}"


def _struct_texts(column: pa.Array) -> list[str]:
    kind = column.type
    names = [encode_basestring(kind.field(at).name) for at in range(kind.num_fields)]
    inner = zip(*(texts(each) for each in column.flatten()), strict=True)
    there = column.is_valid().to_pylist()
    return [_object(names, row) if valid else NULL for valid, row in zip(there, inner, strict=True)]


def _list_texts(column: pa.Array) -> list[str]:
    offsets = column.offsets.to_pylist()
    items = texts(_child(column.values, offsets))
    return _pieces(column, offsets, lambda first, end: "[" + ",".join(items[first:end]) + "]")


def _map_texts(column: pa.Array) -> list[str]:
    offsets = column.offsets.to_pylist()
    names = [_map_key(text) for text in texts(_child(column.keys, offsets))]
    items = texts(_child(column.items, offsets))
    return _pieces(column, offsets, lambda first, end: _object(names[first:end], items[first:end]))


def _child(values: pa.Array, offsets: list[int]) -> pa.Array:
    """The values of a slice of lists."""
    return values.slice(offsets[0], offsets[-1] - offsets[0])


def _pieces(column: pa.Array, offsets: list[int], made: Callable[[int, int], str]) -> list[str]:
    there = column.is_valid().to_pylist()
    return [
        made(offsets[at] - offsets[0], offsets[at + 1] - offsets[0]) if valid else NULL
        for at, valid in enumerate(there)
    ]


def _map_key(text: str) -> str:
    return text if text.startswith('"') else f'"{text}"'


def _time_texts(column: pa.Array) -> list[str]:
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):  # years beyond 9999
        said = column.cast(pa.string()).to_pylist()
        return [NULL if each is None else f'"{each.replace(" ", "T")}"' for each in said]
    return [NULL if each is None else f'"{each.isoformat()}"' for each in values]


def _plain(kind: pa.DataType) -> Plain:
    """The function that writes a value of this type; raises KeyError for an unsupported type."""
    if pa.types.is_decimal(kind):
        return _decimal
    if pa.types.is_duration(kind):
        return _duration
    return _PLAIN[kind]


def _decimal(value: Decimal) -> str:
    if value == value.to_integral_value():
        return str(int(value))
    return format(value, "f").rstrip("0")


def _duration(value: timedelta) -> str:
    return repr(value.total_seconds())


def _float(value: float) -> str:
    """JSON has no NaN and no infinity: they are written as strings."""
    if value != value:
        return '"NaN"'
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return repr(value)


def _bytes(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


_PLAIN: Final[dict[pa.DataType, Plain]] = {
    pa.bool_(): json.dumps,
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), str),
    **dict.fromkeys((pa.float32(), pa.float64()), _float),
    **dict.fromkeys((pa.string(), pa.large_string()), encode_basestring),
    **dict.fromkeys((pa.binary(), pa.large_binary()), _bytes),
    pa.null(): json.dumps,
}
