"""Reads the rows of files in the form that the steps of a flow expect: with positions and errors.

A line that is not a valid row becomes a bad record, whose value is the line. Spark's JSON reader
parses the first value of a line and silently ignores the rest. Each line is therefore wrapped in a
JSON object: any further text breaks its syntax, lengthens its array, or hides its last field.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headrace.pipeline.core.columns import DELETED, ERROR, ERROR_TYPE, RECORD
from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.json_checks import not_strings
from headrace.pipeline.formats.record_check import RecordCheck, literal, not_utf8, verdict
from headrace.pipeline.formats.schema import StructOf, quoted
from headrace.pipeline.spec.flow import Flow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader
    from pyspark.sql.types import StructType

NO_NUMBER: Final = -1
_CORRUPT: Final = "_corrupt_line"
_PARSED: Final = "_parsed_line"
_BEFORE: Final = '{"r":['
_BEHIND: Final = ',null],"end":true}'
_WRAPPED: Final = f"concat({literal(_BEFORE)}, value, {literal(_BEHIND)})"
_PAIR: Final = 2
"""The size of the array: the line, followed by a null."""
_FITS: Final = (
    f"({_PARSED}.{_CORRUPT} IS NULL AND {_PARSED}.end IS NOT NULL "
    f"AND size({_PARSED}.r) = {_PAIR} AND get({_PARSED}.r, 0) IS NOT NULL)"
)
# Parses the line a second time, so it is evaluated only for lines that do not fit.
_ALONE: Final = f"from_json({_WRAPPED}, 'r array<string>, end boolean')"
_IS_ALONE: Final = f"coalesce({_ALONE}.end AND size({_ALONE}.r) = {_PAIR}, false)"


def json_rows(
    lines: "DataFrame",
    schema: "StructType",
    options: Mapping[str, str],
    flow: Flow,
    given: StructOf | None,
) -> "DataFrame":
    """The rows of lines of text, each one JSON object. Blank lines are ignored.

    With a `given` schema, fields must have its types; a string field must be a JSON string.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, BooleanType, StringType, StructType

    wrapper = (
        StructType()
        .add("r", ArrayType(schema))
        .add("end", BooleanType())
        .add(_CORRUPT, StringType())
    )
    reading = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = (
        lines.where("trim(value) <> ''")
        .selectExpr("value", "_metadata AS _file")
        .withColumn(_PARSED, F.from_json(F.expr(_WRAPPED), wrapper, reading))
    )
    checks = [
        not_utf8("value"),
        RecordCheck(
            f"NOT {_FITS} AND NOT {_IS_ALONE}",
            BadRecord.NOT_JSON,
            literal("is not one JSON value and nothing else"),
        ),
        RecordCheck(
            f"NOT {_FITS}",
            BadRecord.SCHEMA_MISMATCH,
            literal("is not a JSON object that matches the schema of the source"),
        ),
    ]
    others = ""
    if given is not None:
        others = not_strings(given, f"get({_PARSED}.r, 0)", "value", _WRAPPED, "r")
    if others:
        message = literal("has something else where a string belongs")
        checks.append(RecordCheck(others, BadRecord.SCHEMA_MISMATCH, message))
    return parsed.selectExpr(
        *(f"get({_PARSED}.r, 0).{quoted(name)} AS {quoted(name)}" for name in schema.names),
        f"{_record('CAST(value AS binary)', '_file')} AS {RECORD}",
        f"{verdict('false', checks, flow.on_error)} AS {ERROR}",
        f"false AS {DELETED}",
    )


def csv_rows(
    reader: "DataFrameReader", files: list[str], schema: "StructType", flow: Flow
) -> "DataFrame":
    """The rows of CSV files. Reading fails if a file's first line does not name the columns."""
    from pyspark.sql.types import StringType, StructType

    with_corrupt = StructType(list(schema.fields)).add(_CORRUPT, StringType())
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _CORRUPT)
    rows = reader.schema(with_corrupt).load(files)
    check = RecordCheck(
        f"{_CORRUPT} IS NOT NULL",
        BadRecord.NOT_CSV,
        literal("does not match the CSV schema of the source"),
    )
    # Spark refuses a query of the corrupt-line column alone; the hash adds another column.
    kept = f"hash({quoted(schema.names[0])}) & 0"
    value = f"coalesce(CAST({_CORRUPT} AS binary), {_as_json(schema.names, flow)})"
    return rows.selectExpr(
        *(quoted(name) for name in schema.names),
        f"{_record(value, '_metadata', kind=kept)} AS {RECORD}",
        f"{verdict('false', (check,), flow.on_error)} AS {ERROR}",
        f"false AS {DELETED}",
    )


def whole_rows(rows: "DataFrame", flow: Flow, number: str = str(NO_NUMBER)) -> "DataFrame":
    """The rows of files that are valid as a whole; `number` is SQL for a row's number."""
    value = _as_json(rows.columns, flow)
    return rows.selectExpr(
        *(quoted(name) for name in rows.columns),
        f"{_record(value, '_metadata', number)} AS {RECORD}",
        f"CAST(NULL AS {ERROR_TYPE}) AS {ERROR}",
        f"false AS {DELETED}",
    )


def _as_json(columns: list[str], flow: Flow) -> str:
    """The dead letter's value for a row without a line; null if the flow has no dead letters."""
    if flow.dead_letter is None:
        return "CAST(NULL AS binary)"
    fields = ", ".join(quoted(name) for name in columns)
    return f"CAST(to_json(struct({fields}), map('ignoreNullFields', 'false')) AS binary)"


def _record(value: str, file: str, number: str = str(NO_NUMBER), *, kind: str = "0") -> str:
    """`_record` of a row of a file: the topic is the file, the offset the row's number in it."""
    return (
        f"named_struct('key', CAST(NULL AS binary), 'value', {value}, "
        f"'topic', {file}.file_path, 'partition', {NO_NUMBER}, "
        f"'offset', CAST({number} AS bigint), 'timestamp', {file}.file_modification_time, "
        f"'timestampType', {kind}, "
        "'headers', CAST(NULL AS array<struct<key: string, value: binary>>))"
    )
