"""The tool's own columns, beside those of the data.

From `formats.parse` on, every row has them; sinks and dead letters read them, tables never see
them.
"""

from typing import Final

RECORD: Final = "_record"
"""struct<key, value, topic, partition, offset, timestamp, timestampType, headers>: the record as
it was read. Of a row of a file, `topic` is the file, `partition` is -1, `offset` the row's number
if it has one, and `value` its line, or the row as JSON.
After `shape` it is null in good rows, which need it no more, but for a flow that merges."""
ERROR: Final = "_error"
"""struct<class: string, message: string, action: string>, null in good rows. `action` is what the
flow asks for: `dead_letter`, `fail` (stop the run, commit nothing) or `skip` (count, and go on)."""
DELETED: Final = "_deleted"
"""boolean: the record had a null value, so that a merge deletes by the key columns."""

REPORT: Final = "_report"
"""string, only where tasks write rows while they read (`read_task`): a row that is no record but a
file that is written, as JSON; null in all others."""
SIMPLE: Final = "_simple"
"""struct, only where tasks parse records while they read: the record's columns as the task has read
them (`simple_field`), null where Spark has to read the record. One struct, as Spark copies a row
from step to step, and a column for each would be copied one by one."""

OWN: Final = (RECORD, ERROR, DELETED)
TAKEN: Final = frozenset({*OWN, REPORT})
"""Names that no column of the data can have, in whatever case."""
ERROR_TYPE: Final = "struct<class: string, message: string, action: string>"
RECORD_TYPE: Final = (
    "struct<key: binary, value: binary, topic: string, partition: int, offset: bigint, "
    "timestamp: timestamp, timestampType: int, headers: array<struct<key: string, value: binary>>>"
)


def simple_field(number: int) -> str:
    """The field of `_simple` that has the schema's column of that number: names may be odd."""
    return f"c{number}"
