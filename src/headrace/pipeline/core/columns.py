"""Headrace's own columns, which every row carries beside the columns of the data.

`formats.parse` adds them. Sinks and dead letters read them. Tables never contain them.
"""

from typing import Final

RECORD: Final = "_record"
"""struct<key, value, topic, partition, offset, timestamp, timestampType, headers>: the record as
it was read. For a row of a file, `topic` is the file, `partition` is -1, `offset` is the row's
number if it has one, and `value` is its line, or the row as JSON.
After `shape` it is null in good rows, which no longer need it, except in a flow that merges."""
ERROR: Final = "_error"
"""struct<class: string, message: string, action: string>, null in good rows. `action` is
what the flow asks for: `dead_letter`, `fail` (stop the run, commit nothing) or `skip` (count the
record and continue)."""
DELETED: Final = "_deleted"
"""boolean: the record has a null value. A merge deletes the row with its key columns."""

REPORT: Final = "_report"
"""string, only if tasks write rows while they read (`json_read_task`). A row with a value is not a
record: it describes a file that the task wrote, as JSON. Null in all other rows."""
SIMPLE: Final = "_simple"
"""struct, only if tasks parse records while they read: the record's columns as the task parsed
them (`simple_field`), null if Spark must parse the record. One struct instead of one column for
each field, because Spark copies a row's columns one by one from step to step."""

OWN: Final = (RECORD, ERROR, DELETED)
TAKEN: Final = frozenset({*OWN, REPORT})
"""Reserved names: no column of the data can have one of them, in upper or lower case."""
ERROR_TYPE: Final = "struct<class: string, message: string, action: string>"
RECORD_TYPE: Final = (
    "struct<key: binary, value: binary, topic: string, partition: int, offset: bigint, "
    "timestamp: timestamp, timestampType: int, headers: array<struct<key: string, value: binary>>>"
)


def simple_field(number: int) -> str:
    """The field of `_simple` for the schema's column `number`: column names may be unusual."""
    return f"c{number}"
