"""JSON by Spark's `from_json`, and what it lets pass in silence. Pure: makes SQL.

`from_json` is the fastest reader there is in Spark, but it is lenient: it stops reading after the
first object, takes any value for a string and a number for a time, gives infinity for a number
that is too large, repairs invalid UTF-8, and knows no required fields. So the record is read
inside an object of our own (what follows it then breaks the syntax), and cheap checks on the
result find the rest. What costs a second reading is done for suspects only.
"""

import re
from typing import Final

from headrace.pipeline.formats.problems import BadRecord, Checks, literal, problem
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
# Names of the wrong fields are worked out for the first columns only: the SQL must stay small.
MAX_NAMED_COLUMNS: Final = 60


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
    given: Json, columns: Struct, struct: str, bytes_sql: str, action: str, prefix: str
) -> Checks:
    """What is wrong with one side of a record."""
    text = f"CAST({bytes_sql} AS STRING)"
    invalid = f"NOT is_valid_utf8({text})"
    broken = f"({struct}.{_CORRUPT} IS NOT NULL OR {struct}.{_ROOT} IS NULL)"
    twice = f"try_parse_json({text}) IS NULL"
    infinite, missing = _infinite(columns, struct, prefix), _missing(columns, struct, prefix)
    strings = _strings(columns)
    branches = [
        (invalid, BadRecord.INVALID_UTF8, literal(f"{prefix}is not UTF-8")),
        (
            f"{broken} AND NOT {_is_object(text)}",
            BadRecord.NOT_JSON,
            literal(f"{prefix}is no JSON object, or is nested too deep"),
        ),
        (broken, BadRecord.SCHEMA_MISMATCH, _misfits(columns, struct, text, prefix)),
        *infinite,
        *missing,
    ]
    suspicious = [invalid, broken, *(each[0] for each in (*infinite, *missing))]
    if strings:
        branches.append(_not_strings(strings, text, prefix))
        suspicious.append(_perhaps_not_strings(strings, struct, text))
    if given.duplicate_keys == "error":
        branches.append((twice, BadRecord.DUPLICATE_KEY, literal(f"{prefix}has a key twice")))
        suspicious.append(twice)
    return Checks(
        " OR ".join(f"({each})" for each in suspicious),
        " ".join(
            f"WHEN {condition} THEN {problem(kind, message, action)}"
            for condition, kind, message in branches
        ),
    )


def _is_object(text: str) -> str:
    """Nothing but an object, as a strict reader sees it. Costs a second reading.

    Inside an array, because this reader, too, stops after the first value.
    """
    found = f"schema_of_variant(try_parse_json(concat('[', {text}, ']')))"
    return f"coalesce({found} LIKE 'ARRAY<OBJECT<%', false)"


def _misfits(columns: Struct, struct: str, text: str, prefix: str) -> str:
    """Names the columns that are null although the record has something for them."""
    named = [
        f"CASE WHEN {field(struct, each)} IS NULL AND {_present('v', each)} "
        f"THEN {literal(f'{each.name} is no {type_text(each.type)}')} END"
        for each in columns.columns[:MAX_NAMED_COLUMNS]
        if _plain_name(each)
    ]
    fallback = literal(f"{prefix}does not fit the schema")
    if not named:
        return fallback
    found = (
        f"element_at(transform(array(try_parse_json({text})), "
        f"v -> nullif(concat_ws(', ', {', '.join(named)}), '')), 1)"
    )
    return f"coalesce(concat({literal(prefix)}, {found}), {fallback})"


def _infinite(columns: Struct, struct: str, prefix: str) -> list[tuple[str, BadRecord, str]]:
    """A number that is too large for a double becomes infinity; JSON itself has none."""
    return [
        (
            f"abs({field(struct, each)}) = double('Infinity')",
            BadRecord.OUT_OF_RANGE,
            literal(f"{prefix}{each.name} is no finite number"),
        )
        for each in columns.columns
        if each.type in (Primitive("double"), Primitive("float"))
    ]


def _missing(columns: Struct, struct: str, prefix: str) -> list[tuple[str, BadRecord, str]]:
    return [
        (
            f"{struct}.{_ROOT}.{'.'.join(quoted(step) for step in path)} IS NULL",
            BadRecord.MISSING_FIELD,
            literal(f"{prefix}{'.'.join(path)} is required"),
        )
        for path in required_paths(columns)
    ]


def _strings(columns: Struct) -> list[Column]:
    """The columns that JSON writes as strings."""
    return [
        each
        for each in columns.columns
        if isinstance(each.type, Primitive) and each.type.name in _AS_STRING and _plain_name(each)
    ][:MAX_NAMED_COLUMNS]


def _perhaps_not_strings(strings: list[Column], struct: str, text: str) -> str:
    """A number, a boolean, an array or an object may stand where a string belongs.

    Suspects are found in two steps, the second dearer and for fewer rows: by the value itself (a
    string that looks like a number), and by a pattern over the text (where the name may be that
    of an inner field). `_not_strings` makes sure.
    """
    suspect = " OR ".join(_suspect(each, field(struct, each), text) for each in strings)
    names = "|".join(re.escape(each.name) for each in strings)
    pattern = rf'"(?:{names})"\s*:\s*[^"n\s]'
    return f"({suspect}) AND rlike({text}, {literal(pattern)})"


def _not_strings(strings: list[Column], text: str, prefix: str) -> tuple[str, BadRecord, str]:
    named = [
        f"CASE WHEN {_present('v', each)} AND schema_of_variant({_at('v', each)}) <> 'STRING' "
        f"THEN {literal(f'{each.name} is no JSON string')} END"
        for each in strings
    ]
    found = (
        f"element_at(transform(array(try_parse_json({text})), "
        f"v -> nullif(concat_ws(', ', {', '.join(named)}), '')), 1)"
    )
    return (
        f"{found} IS NOT NULL",
        BadRecord.SCHEMA_MISMATCH,
        f"concat({literal(prefix)}, {found})",
    )


def _suspect(column: Column, value: str, text: str) -> str:
    """Whether the value may have been something else than a string; cheap, and never too strict."""
    if column.type == Primitive("string"):
        # '-' to '9' begin numbers; '[' and '{' begin arrays and objects.
        return (
            f"({value} >= '-' AND {value} < ':') OR ({value} >= '[' AND {value} < '\\\\') "
            f"OR ({value} >= '{{' AND {value} < '|') OR {value} IN ('true', 'false')"
        )
    written = [literal(f'"{column.name}":{space}"') for space in ("", " ")]
    return (
        f"({value} IS NOT NULL AND NOT contains({text}, {written[0]}) "
        f"AND NOT contains({text}, {written[1]}))"
    )


def _plain_name(column: Column) -> bool:
    """Names that a variant's path can hold without escapes."""
    return not re.search(r"""["'\\\[\]$]""", column.name)


def _at(variant: str, column: Column) -> str:
    path = literal(f"$['{column.name}']")
    return f"try_variant_get({variant}, {path}, 'variant')"


def _present(variant: str, column: Column) -> str:
    found = _at(variant, column)
    return f"({found} IS NOT NULL AND NOT is_variant_null({found}))"
