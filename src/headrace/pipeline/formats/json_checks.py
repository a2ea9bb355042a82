"""Reads JSON with Spark's `from_json`, and finds the errors that it ignores. Pure: it makes SQL.

`from_json` is the fastest JSON reader in Spark, but it is lenient. It stops after the first object.
It accepts any value for a string, and a number for a time. It turns a number that is too large into
infinity, repairs invalid UTF-8, and does not know required fields.

So this module reads each record inside a larger text: `{"_record":[RECORD,null],"_end":true}`. If
the record has text after its object, the syntax breaks, the array is longer, or `_end` is missing.
Cheap checks on the result find the other errors. Only bad records are read a second time.
"""

import json
import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.not_json import UNREADABLE
from headrace.pipeline.formats.record_check import RecordCheck, literal, not_utf8, options_map
from headrace.pipeline.formats.schema import (
    ArrayOf,
    Column,
    MapOf,
    Primitive,
    StructOf,
    Type,
    quoted,
    required_paths,
    type_text,
)
from headrace.pipeline.formats.timestamp_rules import YEARS
from headrace.pipeline.spec.formats import Json

_ROOT: Final = "_record"
_END: Final = "_end"
_CORRUPT: Final = "_corrupt"
_BEFORE: Final = f'{{"{_ROOT}":['
_BEHIND: Final = f',null],"{_END}":true}}'
_ELEMENTS: Final = 2
"""The record and the null after it."""
# Types that JSON writes as a string. `from_json` also accepts other values for them.
_AS_STRING: Final = frozenset({"string", "timestamp", "timestamp_ntz", "date", "binary"})
# The checks of single columns are generated code. It must stay small to be fast.
MAX_CHECKED_COLUMNS: Final = 60
_ESCAPES: Final = (r"\ud", r"\uD")
_LONE_SURROGATE: Final = (
    r"(?<!\\)(?:\\\\)*(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F])"
)
MAX_VARIANT_BYTES: Final = 16 << 20
"""Spark may reject a larger variant only because of its size."""
MAX_SHOWN: Final = 300
"""The most characters of a record's own schema in a message."""


def parsed(given: Json, columns: StructOf, side: str, limit_bytes: int) -> str:
    """Returns the SQL of the parsed struct. `field` and `checks` use it."""
    text = f"CAST({side} AS STRING)"
    wrapped = (
        f"CASE WHEN octet_length({side}) <= {limit_bytes} "
        f"THEN concat({literal(_BEFORE)}, {text}, {literal(_BEHIND)}) END"
    )
    ddl = f"{_ROOT} array<{type_text(columns)}>, {_END} boolean, {_CORRUPT} string"
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _CORRUPT,
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
        "timestampFormat": given.timestamp_format,
        "dateFormat": given.date_format,
    }
    return f"from_json({wrapped}, {literal(ddl)}, {options_map(options)})"


def field(struct: str, column: Column) -> str:
    return _at(struct, (column.name,))


def _at(struct: str, path: tuple[str, ...]) -> str:
    """Returns the SQL of a field of the record. `path` has the names of the enclosing structs."""
    return ".".join((f"get({struct}.{_ROOT}, 0)", *(quoted(step) for step in path)))


def checks(
    given: Json, columns: StructOf, struct: str, bytes_sql: str, prefix: str
) -> Iterator[RecordCheck]:
    """Yields the checks of one side of a record."""
    text = f"CAST({bytes_sql} AS STRING)"
    broken = (
        f"({struct}.{_CORRUPT} IS NOT NULL OR {struct}.{_END} IS NULL "
        f"OR size({struct}.{_ROOT}) <> {_ELEMENTS} OR get({struct}.{_ROOT}, 0) IS NULL)"
    )
    yield not_utf8(text, prefix)
    yield RecordCheck(
        f"{broken} AND NOT {_is_object(text)}",
        BadRecord.NOT_JSON,
        literal(f"{prefix}{UNREADABLE}"),
    )
    shown = f"left(schema_of_variant(try_parse_json({text})), {MAX_SHOWN})"
    yield RecordCheck(
        broken,
        BadRecord.SCHEMA_MISMATCH,
        f"concat({literal(f'{prefix}does not fit the schema: it is ')}, {shown})",
    )
    yield RecordCheck(
        f"({' OR '.join(f'contains({text}, {literal(each)})' for each in _ESCAPES)}) "
        f"AND rlike({text}, {literal(_LONE_SURROGATE)})",
        BadRecord.NOT_JSON,
        literal(f"{prefix}has half of a surrogate pair, which is not a character"),
    )
    yield from _out_of_range(columns, struct, prefix)
    yield from _missing(columns, struct, prefix)
    yield from _not_strings(columns, struct, text, prefix)
    if given.duplicate_keys == "error":
        twice = literal(f"{prefix}has a key twice")
        yield RecordCheck(f"try_parse_json({text}) IS NULL", BadRecord.DUPLICATE_KEY, twice)


def _is_object(text: str) -> str:
    """Returns a condition: a strict parser reads the text as exactly one object.

    It reads the text a second time, which is slow. The text is put into an array, because this
    parser also stops after the first value. It is also put into an object, because a bracket that
    closes the array would hide the text after it.
    """
    listed = f"try_parse_json(concat('[', {text}, ']'))"
    held = f"try_parse_json(concat('{{\"r\":', {text}, '}}'))"
    alone = f"variant_get({listed}, '$[1]', 'variant') IS NULL AND {held} IS NOT NULL"
    return f"(coalesce(schema_of_variant({listed}) LIKE 'ARRAY<OBJECT<%', false) AND {alone})"


class _Leaf(NamedTuple):
    """A value in the record, inside structs and at most one array or map."""

    path: tuple[str, ...]
    type: Primitive
    many: Literal["", "array", "map"] = ""
    """The container, if there are several values."""


def _leaves(kind: Type, path: tuple[str, ...] = (), *, in_array: bool = False) -> Iterator[_Leaf]:
    match kind:
        case Primitive():
            yield _Leaf(path, kind, "array" if in_array else "")
        case StructOf(columns):
            for each in columns:
                yield from _leaves(each.type, (*path, each.name), in_array=in_array)
        case ArrayOf(item) if not in_array:
            yield from _leaves(item, path, in_array=True)
        case MapOf(Primitive() as value) if not in_array:
            yield _Leaf(path, value, "map")


def _out_of_range(columns: StructOf, struct: str, prefix: str) -> Iterator[RecordCheck]:
    """Yields checks for values that Spark accepts but readers of the table cannot represent."""
    for leaf in _leaves(columns):
        name, value = ".".join(leaf.path), _at(struct, leaf.path)
        if leaf.type.name in ("double", "float"):
            # A number that is too large becomes infinity. JSON has no infinity.
            yield RecordCheck(
                _is_infinite(leaf, value),
                BadRecord.OUT_OF_RANGE,
                literal(f"{prefix}{name} is not a finite number"),
            )
        elif leaf.type.name in YEARS:
            first, last = YEARS[leaf.type.name]
            low, high = value, value
            if leaf.many:
                values = f"map_values({value})" if leaf.many == "map" else value
                low, high = f"array_min({values})", f"array_max({values})"
            yield RecordCheck(
                f"({low} < {first} OR {high} > {last})",
                BadRecord.OUT_OF_RANGE,
                literal(f"{prefix}{name} is outside of the years 1 to 9999"),
            )
    yield from _doubled_keys(columns, struct, prefix)


def _is_infinite(leaf: _Leaf, value: str) -> str:
    if not leaf.many:
        return f"abs({value}) = double('Infinity')"
    values = f"map_values({value})" if leaf.many == "map" else value
    kind = leaf.type.name
    both = (f"array_contains({values}, {kind}('{sign}Infinity'))" for sign in ("", "-"))
    return f"({' OR '.join(both)})"


def _doubled_keys(columns: StructOf, struct: str, prefix: str) -> Iterator[RecordCheck]:
    """Yields checks for maps with duplicate keys. A table with such a map cannot be read."""
    for each in columns.columns:
        if isinstance(each.type, MapOf):
            keys = f"map_keys({field(struct, each)})"
            yield RecordCheck(
                f"size({keys}) <> size(array_distinct({keys}))",
                BadRecord.DUPLICATE_KEY,
                literal(f"{prefix}{each.name} has a key twice"),
            )


def _missing(columns: StructOf, struct: str, prefix: str) -> Iterator[RecordCheck]:
    for path in required_paths(columns):
        yield RecordCheck(
            f"{_at(struct, path)} IS NULL",
            BadRecord.MISSING_FIELD,
            literal(f"{prefix}{'.'.join(path)} is required"),
        )


def _not_strings(columns: StructOf, struct: str, text: str, prefix: str) -> Iterator[RecordCheck]:
    """Yields a check for numbers, booleans, arrays and objects in place of a string."""
    wrapped = f"concat({literal(_BEFORE)}, {text}, {literal(_BEHIND)})"
    found = not_strings(columns, f"get({struct}.{_ROOT}, 0)", text, wrapped, _ROOT)
    if found:
        message = literal(f"{prefix}has something else where a string belongs")
        yield RecordCheck(found, BadRecord.SCHEMA_MISMATCH, message)


def not_strings(columns: StructOf, struct: str, text: str, wrapped: str, root: str) -> str:
    """Returns a condition: the JSON `text` has another type in place of a string, time or bytes.

    `from_json` turns any value into a string, and a number into a time. So the condition reads
    these fields again as variants, which keep their type. `wrapped` is the text to read. Its field
    `root` is a list, and the record is the first element. `struct` is the result of the first read.
    The condition is empty if there are no such fields.
    """
    again = _as_variants(columns)
    if again is None:
        return ""
    suspects = list(_suspects(columns, struct, text))
    looked = " OR ".join(suspects) if len(suspects) <= MAX_CHECKED_COLUMNS else "true"
    # An object with a duplicate key cannot be a variant.
    unread = f"(_s.{_CORRUPT} IS NOT NULL AND octet_length({text}) <= {MAX_VARIANT_BYTES})"
    bad = f"{unread} OR {_holds_others(columns, f'get(_s.{root}, 0)', 0)}"
    ddl = literal(f"{root} array<{type_text(again)}>, {_CORRUPT} string")
    read = f"from_json({wrapped}, {ddl}, map('columnNameOfCorruptRecord', {literal(_CORRUPT)}))"
    # A list of one element gives the result a name, so that it is read only once.
    return f"({looked}) AND exists(array({read}), _s -> {bad})"


def _as_variants(kind: Type) -> Type | None:
    """Returns the type with variants in place of strings and similar types, and nothing else."""
    match kind:
        case Primitive(name):
            return Primitive("variant") if name in _AS_STRING else None
        case ArrayOf(item):
            inner = _as_variants(item)
            return None if inner is None else ArrayOf(inner)
        case MapOf(value):
            inner = _as_variants(value)
            return None if inner is None else MapOf(inner)
        case StructOf(columns):
            kept = [(each, _as_variants(each.type)) for each in columns]
            found = tuple(Column(each.name, inner) for each, inner in kept if inner is not None)
            return StructOf(found) if found else None


def _holds_others(kind: Type, value: str, depth: int) -> str:
    """Returns a condition: a value read as variants has other types than strings.

    It is never null.
    """
    inner = f"_x{depth}"
    match kind:
        case Primitive(name):
            if name not in _AS_STRING:
                return ""
            return f"coalesce(schema_of_variant({value}), 'VOID') NOT IN ('STRING', 'VOID')"
        case ArrayOf(item):
            found = _holds_others(item, inner, depth + 1)
            return found and f"coalesce(exists({value}, {inner} -> {found}), false)"
        case MapOf(item):
            found = _holds_others(item, inner, depth + 1)
            return found and f"coalesce(exists(map_values({value}), {inner} -> {found}), false)"
        case StructOf(columns):
            parts = (_holds_others(c.type, f"{value}.{quoted(c.name)}", depth) for c in columns)
            return " OR ".join(filter(None, parts))


def _suspects(kind: Type, value: str, text: str) -> Iterator[str]:
    """Yields cheap conditions for values that may not be strings. All other values are strings.

    A value that looks like another type is a string if its name is in the text only once, with a
    string after it.
    """
    match kind:
        case StructOf(columns):
            for each in columns:
                at = f"{value}.{quoted(each.name)}"
                if isinstance(each.type, Primitive) and each.type.name in _AS_STRING:
                    yield f"({_looks_otherwise(each, at)} AND NOT {_is_string(each.name, text)})"
                else:
                    yield from _suspects(each.type, at, text)
        case ArrayOf() | MapOf():
            if _as_variants(kind) is not None:
                yield f"{value} IS NOT NULL"


def _is_string(column: str, text: str) -> str:
    name = json.dumps(column, ensure_ascii=False)
    plain = literal(name + ':"')
    spaced = literal(re.escape(name) + r'\s*:\s*"')
    others = f"length({text}) - length(replace({text}, {literal(name)}, ''))"
    return f"((contains({text}, {plain}) OR rlike({text}, {spaced})) AND {others} <= {len(name)})"


def _looks_otherwise(column: Column, value: str) -> str:
    """Returns a cheap condition: the value may not have been a string. It misses no such value."""
    if column.type != Primitive("string"):
        return f"{value} IS NOT NULL"
    # Numbers begin with '-' to '9', arrays with '[', objects with '{'.
    return (
        f"(({value} >= '-' AND {value} < ':') OR ({value} >= '[' AND {value} < '\\\\') "
        f"OR ({value} >= '{{' AND {value} < '|') OR {value} IN ('true', 'false'))"
    )
