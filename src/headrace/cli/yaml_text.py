"""Writes plain values as YAML: mappings, lists, text, numbers, booleans and null. Pure.

The output is the part of YAML that every parser reads alike: block style, with JSON's double
quotes around any text that a parser could read as another type.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

# Text that no YAML parser reads as a number, a date, a boolean or syntax.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan", "inf"})


def to_yaml(value: object) -> str:
    """One document, ending in a newline."""
    return "\n".join(_lines(value, 0)) + "\n"


def _lines(value: object, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _entry(f"{indent}{_scalar(str(key))}:", inner, depth)
    elif _is_list(value) and value:
        assert isinstance(value, Sequence)
        for inner in value:
            nested = list(_lines(inner, depth + 1))
            yield f"{indent}- {nested[0].lstrip()}"
            yield from nested[1:]
    else:
        yield indent + _scalar(value)


def _entry(start: str, value: object, depth: int) -> Iterator[str]:
    if value and (isinstance(value, Mapping) or _is_list(value)):
        yield start
        yield from _lines(value, depth + 1)
    else:
        yield f"{start} {_scalar(value)}"


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _scalar(value: object) -> str:
    if isinstance(value, Mapping):
        return "{}"
    if _is_list(value):
        return "[]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
