"""CSV by Spark's `from_csv`, one line a record. Pure: makes SQL."""

from collections.abc import Iterator
from typing import Final

from headrace.pipeline.formats.problems import BadRecord, Check, literal
from headrace.pipeline.formats.schema import Column, Struct, quoted, to_ddl
from headrace.pipeline.spec.formats import Csv

_CORRUPT: Final = "_corrupt"


def parsed(given: Csv, columns: Struct, side: str, limit_bytes: int) -> str:
    text = f"CASE WHEN octet_length({side}) <= {limit_bytes} THEN CAST({side} AS STRING) END"
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _CORRUPT,
        "sep": given.separator,
        "quote": given.quote,
        "nullValue": given.null,
        "emptyValue": "",
        "maxCharsPerColumn": "-1",
        "timestampFormat": given.timestamp_format,
        "dateFormat": given.date_format,
    }
    pairs = ", ".join(
        f"{literal(name)}, {literal(value)}" for name, value in options.items() if value is not None
    )
    return f"from_csv({text}, {literal(f'{to_ddl(columns)}, {_CORRUPT} string')}, map({pairs}))"


def field(struct: str, column: Column) -> str:
    return f"{struct}.{quoted(column.name)}"


def checks(columns: Struct, struct: str, bytes_sql: str, prefix: str) -> Iterator[Check]:
    """What may be wrong with one side of a record."""
    text = f"CAST({bytes_sql} AS STRING)"
    yield Check(
        f"NOT is_valid_utf8({text})", BadRecord.INVALID_UTF8, literal(f"{prefix}is not UTF-8")
    )
    yield Check(
        f"trim({text}) = '' OR {struct} IS NULL OR {struct}.{_CORRUPT} IS NOT NULL",
        BadRecord.NOT_CSV,
        literal(f"{prefix}does not fit the {len(columns.columns)} columns of the schema"),
    )
    for each in columns.columns:
        if each.required:
            yield Check(
                f"{field(struct, each)} IS NULL",
                BadRecord.MISSING_FIELD,
                literal(f"{prefix}{each.name} is required"),
            )
