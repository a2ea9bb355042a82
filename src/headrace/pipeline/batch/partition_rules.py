"""Rows whose values cannot be partition values of their table are bad records. Pure: builds SQL.

Tables keep partition values in the names of directories. A value that is too long for a name would
fail the batch, and the text that means null there would be read back as null.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from headrace.pipeline.core.columns import ERROR
from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.record_check import RecordCheck, literal, problem
from headrace.pipeline.formats.schema import quoted
from headrace.pipeline.sinks.partition_values import CHARS_PER_BYTE, NULL_PARTITION, max_value_chars
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.sinks import Delta, Iceberg, TableSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOT_PLAIN: Final = "[^A-Za-z0-9_.~-]"
"""Characters that are written as %XX."""


def fitting(rows: "DataFrame", flow: Flow) -> "DataFrame":
    """The rows, with an `_error` in those that do not fit."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType

    sink = flow.sink
    if not isinstance(sink, TableSink) or not sink.partition_by:
        return rows
    texts = {field.name for field in rows.schema.fields if isinstance(field.dataType, StringType)}
    names = [name for name in sink.partition_by if name in texts]
    found = " ".join(
        f"WHEN {ERROR} IS NULL AND {each.condition} "
        f"THEN {problem(each.kind, each.message, flow.on_error)}"
        for name in names
        for each in _partition_checks(name, sink)
    )
    return rows.withColumn(ERROR, F.expr(f"CASE {found} ELSE {ERROR} END")) if found else rows


def _partition_checks(name: str, sink: TableSink) -> Iterator[RecordCheck]:
    text, kind, limit = quoted(name), BadRecord.UNFIT_PARTITION, max_value_chars(name)
    written = (
        f"({CHARS_PER_BYTE} * octet_length({text}) - "
        f"{CHARS_PER_BYTE - 1} * length(regexp_replace({text}, {literal(_NOT_PLAIN)}, '')))"
    )
    yield RecordCheck(
        # For most values, the cheap comparison of the length is enough.
        f"{CHARS_PER_BYTE} * octet_length({text}) > {limit} AND {written} > {limit}",
        kind,
        f"concat({literal(f'{name} is too long for the name of a directory: ')}, {written}, "
        f"{literal(f' characters, at most {limit} are allowed')})",
    )
    if not isinstance(sink, Iceberg):
        yield RecordCheck(
            f"{text} = {literal(NULL_PARTITION)}",
            kind,
            literal(f"{name} is the text that means null in the name of a directory"),
        )
    if isinstance(sink, Delta) and name in sink.key:
        yield RecordCheck(
            f"{text} = ''",
            kind,
            literal(
                f"{name} is empty, which means null in a partition, and a key must not be null"
            ),
        )
