"""`_record` and `_error` on their way to the sink's tasks: a column of bytes and one of text.

Spark asks its Arrow writer for the batch's size at every row. Of structs it then looks through all
fields, and of lists it fills up what lies behind the last one that is not null. Both columns are
null in good rows, so that each row would pay for what it does not have: a quarter of the time of a
batch for the structs, half of it for the headers.

A record is one line of JSON, and behind it its key and its value as they are: they may be large.
"""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from headrace.pipeline.core.columns import ERROR, RECORD

_PLAIN: Final = ("topic", "partition", "offset", "timestampType", "headers")
_END: Final = b"\n"
"""Of the line: JSON itself has none."""
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
    """The SQL of the record, in rows that `keep` names."""
    fields = ", ".join(f"'{name}', {RECORD}.{name}" for name in _PLAIN)
    fields += f", 'timestamp', unix_micros({RECORD}.timestamp)"
    sizes = ", ".join(f"'{side}', octet_length({RECORD}.{side})" for side in ("key", "value"))
    line = f"CAST(concat(to_json(named_struct({sizes}, {fields})), '\\n') AS binary)"
    content = ", ".join(f"coalesce({RECORD}.{side}, X'')" for side in ("key", "value"))
    return (
        f"CASE WHEN {RECORD} IS NOT NULL AND ({keep}) THEN concat({line}, {content}) END "
        f"AS {RECORD}"
    )


def packed_error() -> str:
    """The SQL of the error."""
    return f"CASE WHEN {ERROR} IS NOT NULL THEN to_json({ERROR}) END AS {ERROR}"


def unpacked_records(records: pa.Array) -> pa.Array:
    """Records as structs again."""
    if not pa.types.is_binary(records.type):
        return records
    return pa.array([_record(each) for each in records.to_pylist()], RECORD_ARROW)


def unpacked_errors(errors: pa.Array) -> pa.Array:
    """Errors as structs again."""
    if not pa.types.is_string(errors.type):
        return errors
    each = errors.dictionary_encode()  # there are few, and each of them often
    found = pa.array([json.loads(text) for text in each.dictionary.to_pylist()], ERROR_ARROW)
    return found.take(each.indices)


def _record(packed: bytes | None) -> dict[str, Any] | None:
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
        record["headers"] = [_header(each) for each in record["headers"]]
    return record


def _header(given: dict[str, str]) -> dict[str, object]:
    value = base64.b64decode(given["value"]) if "value" in given else None
    return {"key": given.get("key"), "value": value}
