"""`_record` on its way to the sink's tasks: its headers as one text.

Spark asks its Arrow writer for the batch's size at every row, and the writer then fills up its
lists from the last one that was not null. Nearly all headers are null there, as good rows carry no
record, so that each row would pay for all that went before it: half of the time of a batch.
"""

import base64
import json
from typing import Final

import pyarrow as pa

from headrace.pipeline.columns import RECORD

_FIELDS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS: Final = "headers"
HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)


def packed(*, keep: str) -> str:
    """The SQL of the record, in rows that `keep` names."""
    fields = ", ".join(f"'{name}', {RECORD}.{name}" for name in _FIELDS)
    struct = f"named_struct({fields}, '{HEADERS}', to_json({RECORD}.{HEADERS}))"
    return f"CASE WHEN {RECORD} IS NOT NULL AND ({keep}) THEN {struct} END AS {RECORD}"


def unpacked(records: pa.Array) -> pa.Array:
    """Records with their headers as a list again."""
    at = records.type.get_field_index(HEADERS)
    if at < 0 or not pa.types.is_string(records.type.field(at).type):
        return records
    arrays = records.flatten()
    fields = [records.type.field(number) for number in range(records.type.num_fields)]
    arrays[at] = pa.array([_headers(text) for text in arrays[at].to_pylist()], HEADERS_TYPE)
    fields[at] = pa.field(HEADERS, HEADERS_TYPE)
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=records.is_null())


def _headers(text: str | None) -> list[dict[str, object]] | None:
    if text is None:
        return None
    return [
        {
            "key": each.get("key"),
            "value": base64.b64decode(each["value"]) if "value" in each else None,
        }
        for each in json.loads(text)
    ]
