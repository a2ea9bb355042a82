"""Infers a schema from sample records. Pure.

Each field gets the type that it has in most of the samples. So one unusual record does not change
the type. Records with another type are bad records, and they are reported.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.pipeline.formats.schema import ArrayOf, Column, Primitive, StructOf, Type

_LONG: Final = 2**63


def infer_schema(texts: Iterable[bytes | None]) -> StructOf | None:
    """Infers the columns from the JSON objects among the texts. Returns None if there are none."""
    objects = [found for text in texts if (found := _object(text)) is not None]
    struct = _struct(objects)
    return struct if struct.columns else None


def _object(text: bytes | None) -> Mapping[str, object] | None:
    try:
        found = None if text is None else json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _struct(objects: Iterable[Mapping[str, object]]) -> StructOf:
    values: dict[str, list[object]] = {}
    for each in objects:
        for name, value in each.items():
            values.setdefault(name, []).append(value)
    # Spark and tables treat id and Id as the same name. The most frequent spelling is used.
    spelled: dict[str, str] = {}
    for name, found in values.items():
        other = spelled.setdefault(name.lower(), name)
        if len(found) > len(values[other]):
            spelled[name.lower()] = name
    columns = (Column(name, _type(values[name])) for name in spelled.values())
    # A struct without fields (all samples are `{}`) has no column type.
    return StructOf(tuple(each for each in columns if each.type != StructOf(())))


def _type(values: list[object]) -> Type:
    kinds = Counter(kind for value in values if (kind := _kind(value)) is not None)
    if not kinds:
        return Primitive("string")
    if kinds["bigint"] and kinds["double"]:
        kinds["double"] += kinds.pop("bigint")
    most = max(kinds.values())
    kind = min(name for name, count in kinds.items() if count == most)
    if kind == "array":
        items = [item for value in values if isinstance(value, list) for item in value]
        inner = _type(items)
        return ArrayOf(Primitive("string") if inner == StructOf(()) else inner)
    if kind == "object":
        return _struct([value for value in values if isinstance(value, dict)])
    return Primitive(kind)


def _kind(value: object) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            return "bigint" if -_LONG <= value < _LONG else "double"
        case float():
            return "double"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
