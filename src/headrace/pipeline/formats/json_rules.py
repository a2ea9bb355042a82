"""JSON by Spark's `from_json`, and what it lets pass in silence. Pure: makes SQL.

`from_json` is the fastest reader there is in Spark, but it is lenient: it stops reading after the
first object, takes any value for a string and a number for a time, gives infinity for a number
that is too large, repairs invalid UTF-8, and knows no required fields. So the record is read
inside an object of our own (what follows it then breaks the syntax), and cheap checks on the
result find the rest. What costs a second reading is done for bad records only.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from headrace.pipeline.formats.problems import BadRecord, Check, literal
from headrace.pipeline.formats.schema import (
    Column,
    Primitive,
    Struct,
    quoted,
    required_paths,
    type_text,
)
from headrace.pipeline.spec.formats import Json

_ROOT: Final = "r"
_CORRUPT: Final = "_corrupt"
# Types that JSON writes as a string; `from_json` takes other things for them.
_AS_STRING: Final = frozenset({"string", "timestamp", "timestamp_ntz", "date", "binary"})
# The checks of single columns are generated code, which must stay small to be fast.
MAX_CHECKED_COLUMNS: Final = 60
MAX_SHOWN: Final = 300
"""Characters of a record's own schema in a message."""


def parsed(given: Json, columns: Struct, side: str, limit_bytes: int) -> str:
    """The SQL of the parsed struct; `field` and `checks` read it."""
    text = f"CAST({side} AS STRING)"
    wrapped = (
        f"CASE WHEN octet_length({side}) <= {limit_bytes} "
        f"THEN concat('{{\"{_ROOT}\":', {text}, '}}') END"
    )
    ddl = f"{_ROOT} {type_text(columns)}, {_CORRUPT} string"
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _CORRUPT,
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
        "timestampFormat": given.timestamp_format,
        "dateFormat": given.date_format,
    }
    pairs = ", ".join(
        f"{literal(name)}, {literal(value)}" for name, value in options.items() if value is not None
    )
    return f"from_json({wrapped}, {literal(ddl)}, map({pairs}))"


def field(struct: str, column: Column) -> str:
    return f"{struct}.{_ROOT}.{quoted(column.name)}"


def checks(
    given: Json, columns: Struct, struct: str, bytes_sql: str, prefix: str
) -> Iterator[Check]:
    """What may be wrong with one side of a record."""
    text = f"CAST({bytes_sql} AS STRING)"
    broken = f"({struct}.{_CORRUPT} IS NOT NULL OR {struct}.{_ROOT} IS NULL)"
    yield Check(
        f"NOT is_valid_utf8({text})", BadRecord.INVALID_UTF8, literal(f"{prefix}is not UTF-8")
    )
    yield Check(
        f"{broken} AND NOT {_is_object(text)}",
        BadRecord.NOT_JSON,
        literal(f"{prefix}is no JSON object, or is nested too deep"),
    )
    shown = f"left(schema_of_variant(try_parse_json({text})), {MAX_SHOWN})"
    yield Check(
        broken,
        BadRecord.SCHEMA_MISMATCH,
        f"concat({literal(f'{prefix}does not fit the schema: it is ')}, {shown})",
    )
    yield from _infinite(columns, struct, prefix)
    yield from _missing(columns, struct, prefix)
    yield from _not_strings(columns, struct, text, prefix)
    if given.duplicate_keys == "error":
        twice = literal(f"{prefix}has a key twice")
        yield Check(f"try_parse_json({text}) IS NULL", BadRecord.DUPLICATE_KEY, twice)


def _is_object(text: str) -> str:
    """Nothing but an object, as a strict reader sees it. Costs a second reading.

    Inside an array, because this reader, too, stops after the first value.
    """
    found = f"schema_of_variant(try_parse_json(concat('[', {text}, ']')))"
    return f"coalesce({found} LIKE 'ARRAY<OBJECT<%', false)"


def _infinite(columns: Struct, struct: str, prefix: str) -> Iterator[Check]:
    """A number that is too large for a double becomes infinity; JSON itself has none."""
    for each in columns.columns:
        if each.type in (Primitive("double"), Primitive("float")):
            yield Check(
                f"abs({field(struct, each)}) = double('Infinity')",
                BadRecord.OUT_OF_RANGE,
                literal(f"{prefix}{each.name} is no finite number"),
            )


def _missing(columns: Struct, struct: str, prefix: str) -> Iterator[Check]:
    for path in required_paths(columns):
        yield Check(
            f"{struct}.{_ROOT}.{'.'.join(quoted(step) for step in path)} IS NULL",
            BadRecord.MISSING_FIELD,
            literal(f"{prefix}{'.'.join(path)} is required"),
        )


def _not_strings(columns: Struct, struct: str, text: str, prefix: str) -> Iterator[Check]:
    """A number, a boolean, an array or an object where a string belongs.

    Where the value looks like one, the text must have a string under that name. An inner field of
    the same name can hide a bad record, but a good one is never taken for bad.
    """
    strings = [
        each
        for each in columns.columns
        if isinstance(each.type, Primitive) and each.type.name in _AS_STRING
    ]
    for each in strings[:MAX_CHECKED_COLUMNS]:
        name = json.dumps(each.name, ensure_ascii=False)
        plain = literal(name + ':"')
        spaced = literal(re.escape(name) + r'\s*:\s*"')
        yield Check(
            f"{_looks_otherwise(each, field(struct, each))} "
            f"AND NOT contains({text}, {plain}) AND NOT rlike({text}, {spaced})",
            BadRecord.SCHEMA_MISMATCH,
            literal(f"{prefix}{each.name} is no JSON string"),
        )


def _looks_otherwise(column: Column, value: str) -> str:
    """Whether the value may have been something else than a string; cheap, and never too strict."""
    if column.type != Primitive("string"):
        return f"{value} IS NOT NULL"
    # '-' to '9' begin numbers; '[' and '{' begin arrays and objects.
    return (
        f"(({value} >= '-' AND {value} < ':') OR ({value} >= '[' AND {value} < '\\\\') "
        f"OR ({value} >= '{{' AND {value} < '|') OR {value} IN ('true', 'false'))"
    )
