"""Reads CSV with Spark's `from_csv`, one line per record. Pure: it makes SQL.

A quote within quotes is written twice (RFC 4180). Spark accepts any text with quotes in other
places, so this module checks for them.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.record_check import RecordCheck, literal, not_utf8, options_map
from headrace.pipeline.formats.schema import Column, Primitive, StructOf, quoted, to_ddl
from headrace.pipeline.formats.timestamp_rules import YEARS
from headrace.pipeline.spec.formats import Csv

_CORRUPT: Final = "_corrupt"


def parsed(given: Csv, columns: StructOf, side: str, limit_bytes: int) -> str:
    text = f"CASE WHEN octet_length({side}) <= {limit_bytes} THEN CAST({side} AS STRING) END"
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _CORRUPT,
        "sep": given.separator,
        "quote": given.quote,
        "escape": given.quote,
        "nullValue": given.null,
        "emptyValue": "",
        "maxCharsPerColumn": "-1",
        "timestampFormat": given.timestamp_format,
        "dateFormat": given.date_format,
    }
    ddl = literal(f"{to_ddl(columns)}, {_CORRUPT} string")
    return f"from_csv({text}, {ddl}, {options_map(options)})"


def field(struct: str, column: Column) -> str:
    return f"{struct}.{quoted(column.name)}"


def misquoted(text: str, separator: str, quote: str) -> str:
    """Returns a condition: a quoted value does not end, or text follows its end.

    The check first removes pairs of quotes. Then each value has either two quotes around it, or
    none.
    """
    sep, mark = re.escape(separator), re.escape(quote)
    blanks = "" if separator == " " else " *+"
    value = f"(?:{mark}[^{mark}]*+{mark}{blanks}|[^{mark}{sep}][^{sep}]*+)?+"
    whole = f"(?s)\\A{value}(?:{sep}{value})*+[\\r\\n]*\\z"
    alone = f"replace({text}, {literal(quote * 2)}, '')"
    return f"contains({text}, {literal(quote)}) AND NOT rlike({alone}, {literal(whole)})"


def checks(
    given: Csv, columns: StructOf, struct: str, bytes_sql: str, prefix: str
) -> Iterator[RecordCheck]:
    """Yields the checks of one side of a record."""
    text = f"CAST({bytes_sql} AS STRING)"
    yield not_utf8(text, prefix)
    yield RecordCheck(
        f"trim({text}) = '' OR {struct} IS NULL OR {struct}.{_CORRUPT} IS NOT NULL",
        BadRecord.NOT_CSV,
        literal(f"{prefix}does not fit the {len(columns.columns)} columns of the schema"),
    )
    yield RecordCheck(
        misquoted(text, given.separator, given.quote),
        BadRecord.NOT_CSV,
        literal(f"{prefix}has a quoted value that does not end, or that something follows"),
    )
    yield from out_of_range(columns, lambda each: field(struct, each), text, prefix)
    for each in columns.columns:
        if each.required:
            yield RecordCheck(
                f"{field(struct, each)} IS NULL",
                BadRecord.MISSING_FIELD,
                literal(f"{prefix}{each.name} is required"),
            )


def out_of_range(
    columns: StructOf, at: Callable[[Column], str], text: str, prefix: str = ""
) -> Iterator[RecordCheck]:
    """Yields checks for values that Spark accepts but readers of the table cannot represent."""
    for each in columns.columns:
        kind = each.type.name if isinstance(each.type, Primitive) else ""
        if kind in ("double", "float"):
            # A number that is too large becomes infinity. An explicit infinity is allowed.
            condition = f"abs({at(each)}) = double('Infinity') AND NOT rlike({text}, '(?i)inf')"
            message = f"{prefix}{each.name} is not a finite number"
        elif kind in YEARS:
            first, last = YEARS[kind]
            condition = f"({at(each)} < {first} OR {at(each)} > {last})"
            message = f"{prefix}{each.name} is outside of the years 1 to 9999"
        else:
            continue
        yield RecordCheck(condition, BadRecord.OUT_OF_RANGE, literal(message))
