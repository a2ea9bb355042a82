"""Packs `_record` into a binary column and `_error` into a string column for the sink's tasks.

Spark asks its Arrow writer for the size of the batch after every row. For a struct, the writer adds
up all fields. For a list, it fills the offsets after the last value that is not null. Both columns
are null in good rows, so every row would pay for data that it does not have: the structs cost a
quarter of a batch's time, and the headers half of it.

A packed record is one line of JSON, followed by the bytes of its key and of its value: these may be
large, so they are not encoded.
"""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from headrace.pipeline.core.columns import ERROR, RECORD

_JSON_FIELDS: Final = ("topic", "partition", "offset", "timestampType", "headers")
_END: Final = b"\n"
"""The end of the JSON line. The JSON itself contains no line feed."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
RECORD_ARROW: Final = pa.struct(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)
ERROR_ARROW: Final = pa.struct(
    [("class", pa.string()), ("message", pa.string()), ("action", pa.string())]
)


def packed_record(*, keep: str) -> str:
    """SQL that packs the record in rows for which the condition `keep` is true."""
    fields = ", ".join(f"'{name}', {RECORD}.{name}" for name in _JSON_FIELDS)
    fields += f", 'timestamp', unix_micros({RECORD}.timestamp)"
    sizes = ", ".join(f"'{side}', octet_length({RECORD}.{side})" for side in ("key", "value"))
    line = f"CAST(concat(to_json(named_struct({sizes}, {fields})), '\\n') AS binary)"
    content = ", ".join(f"coalesce({RECORD}.{side}, X'')" for side in ("key", "value"))
    return (
        f"CASE WHEN {RECORD} IS NOT NULL AND ({keep}) THEN concat({line}, {content}) END "
        f"AS {RECORD}"
    )


def packed_error() -> str:
    """SQL that packs the error."""
    return f"CASE WHEN {ERROR} IS NOT NULL THEN to_json({ERROR}) END AS {ERROR}"


def unpacked_records(records: pa.Array) -> pa.Array:
    """Turns packed records into structs."""
    if not pa.types.is_binary(records.type):
        return records
    return pa.array([_unpacked_record(each) for each in records.to_pylist()], RECORD_ARROW)


def unpacked_errors(errors: pa.Array) -> pa.Array:
    """Turns packed errors into structs."""
    if not pa.types.is_string(errors.type):
        return errors
    each = errors.dictionary_encode()  # few distinct errors, each repeated often
    found = pa.array([json.loads(text) for text in each.dictionary.to_pylist()], ERROR_ARROW)
    return found.take(each.indices)


def _unpacked_record(packed: bytes | None) -> dict[str, Any] | None:
    if packed is None:
        return None
    line, _, content = packed.partition(_END)
    record: dict[str, Any] = json.loads(line)
    at = 0
    for side in ("key", "value"):
        size = record.get(side)
        if size is not None:
            record[side] = content[at : at + size]
            at += size
    if "timestamp" in record:
        record["timestamp"] = _EPOCH + timedelta(microseconds=record["timestamp"])
    if "headers" in record:
        record["headers"] = [_unpacked_header(each) for each in record["headers"]]
    return record


def _unpacked_header(given: dict[str, str]) -> dict[str, object]:
    value = base64.b64decode(given["value"]) if "value" in given else None
    return {"key": given.get("key"), "value": value}
