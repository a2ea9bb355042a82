"""Finds the fields of a bad JSON record that do not match its schema. Pure.

Spark only reports that the record does not match. This module repeats Spark's rules for types as
far as they are simple. If it finds no mismatch, it reports none.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Final, NamedTuple

from headrace.pipeline.formats.not_json import UNREADABLE, limit_reason, not_json_reason
from headrace.pipeline.formats.schema import ArrayOf, MapOf, Primitive, StructOf, Type, type_text

MAX_FIELDS: Final = 3
"""The most fields in one message. A record may have thousands that do not match."""
MAX_COUNTED: Final = 1000
MAX_PATH: Final = 120
MAX_TYPE: Final = 80
MAX_VALUE: Final = 60
_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_TIMES: Final = frozenset({"timestamp", "timestamp_ntz", "date"})
_STRINGS: Final = _TIMES | {"string", "binary"}


class Mismatch(NamedTuple):
    """A field, its expected type, and the actual value."""

    path: str
    expected: str
    kind: str
    value: str

    def said(self, *, with_value: bool) -> str:
        found = f"{self.kind} {self.value}" if with_value and self.value else self.kind
        return f"{self.path}: expected {self.expected}, found {found}"


@dataclass(frozen=True)
class Explanation:
    """The JSON schemas of both sides of a record. Picklable."""

    value: StructOf | None
    key: StructOf | None = None
    judges_times: bool = True
    """Whether times are in ISO format, not in a format of the spec."""

    def message(self, value: bytes | None, key: bytes | None, said: str, *, open_: bool) -> str:
        """Returns a better message than `said`, if any. With `open_`, it may show the content."""
        about_key = said.startswith("the key ")
        text, schema = (key, self.key) if about_key else (value, self.value)
        if text is None or schema is None:
            return said
        if said.endswith(UNREADABLE):
            return f"{'the key ' if about_key else ''}{not_json_reason(text)}"
        found = list(islice(mismatches(text, schema, judges_times=self.judges_times), MAX_COUNTED))
        if not found:
            limit = limit_reason(text.decode(errors="replace"))
            return said if limit is None else f"{'the key ' if about_key else ''}{limit}"
        named = "; ".join(each.said(with_value=open_) for each in found[:MAX_FIELDS])
        rest = len(found) - MAX_FIELDS
        more = f"; and {'at least ' * (len(found) == MAX_COUNTED)}{rest} more" if rest > 0 else ""
        return f"{'the key ' if about_key else ''}does not fit the schema: {named}{more}"


def mismatches(text: bytes, schema: StructOf, *, judges_times: bool = True) -> Iterator[Mismatch]:
    """Yields the fields that do not match, in the order of the schema.

    It yields none if the text cannot be parsed.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    for each in _of(value, schema, ""):
        if judges_times or each.expected not in _TIMES or each.kind != "string":
            yield each


def _of(value: object, kind: Type, path: str) -> Iterator[Mismatch]:
    if value is None:
        return
    match kind:
        case StructOf(columns) if isinstance(value, dict):
            for each in columns:
                inner = f"{path}.{each.name}" if path else each.name
                yield from _of(value.get(each.name), each.type, inner)
        case MapOf(of) if isinstance(value, dict):
            for name, each in value.items():
                yield from _of(each, of, f"{path}.{name}")
        case ArrayOf(item) if isinstance(value, list):
            for at, each in enumerate(value):
                yield from _of(each, item, f"{path}[{at}]")
        case Primitive(name) if _fits(value, name):
            return
        case _:
            shown = _cut(json.dumps(value, ensure_ascii=False), MAX_VALUE)
            expected = _cut(type_text(kind), MAX_TYPE)
            yield Mismatch(_cut(path or "the value", MAX_PATH), expected, _kind(value), shown)


def _fits(value: object, name: str) -> bool:
    if name == "variant":
        return True
    if name == "boolean":
        return isinstance(value, bool)
    if name in _BITS:
        limit = 1 << (_BITS[name] - 1)
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if name in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if name.startswith("decimal"):
        return _is_decimal(value, name)
    if name in _TIMES and isinstance(value, str):
        return _is_time(value)
    return isinstance(value, str) if name in _STRINGS else True


def _is_decimal(value: object, name: str) -> bool:
    """Spark also reads a decimal from a string, and rounds the fraction."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    digits = _DECIMAL.fullmatch(name)
    try:
        number = abs(Decimal(str(value)))
    except InvalidOperation:
        return False
    return digits is None or number < Decimal(10) ** (int(digits[1]) - int(digits[2]))


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _kind(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
