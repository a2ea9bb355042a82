"""Explains why Spark cannot read a record as a JSON object. Pure.

Spark only reports that it cannot read the record. This module reads the text again, for bad records
only, and returns a sentence with actual numbers. No sentence quotes the record's content, which may
be confidential.
"""

import json
import re
from collections.abc import Sequence
from typing import Final, Never

UNREADABLE: Final = "is not a JSON object that Spark can read"
"""The message if no single cause is found."""
PARSER_MAX_DEPTH: Final = 1000
"""The most levels of arrays and objects that Spark's JSON parser reads."""
WRAPPER_DEPTH: Final = 2
"""The levels of the text around each record. See `json_checks`. Spark reads 998 levels of a record
and refuses 999: with NotJson from 1,000 levels on, with SchemaMismatch at 999."""
MAX_DEPTH: Final = PARSER_MAX_DEPTH - WRAPPER_DEPTH
MAX_DIGITS: Final = 1000
"""The most digits of a number that Spark's JSON parser reads."""
_BYTE_ORDER_MARK: Final = "\ufeff"
_WORDS: Final = ("true", "false", "null", "-")
# A string without its closing quote runs to the end of the text, so one pass is enough.
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]|\d[\d.eE+-]*', re.DOTALL)


class _Constant(ValueError):
    """NaN or Infinity. Python accepts them, but JSON does not have them."""


class _DuplicateKey(ValueError):
    """An object has the same key twice."""


def not_json_reason(record: bytes) -> str:
    """Returns the error of `record`, as the end of a sentence about it."""
    try:
        text = record.decode()
    except UnicodeDecodeError:
        return UNREADABLE
    if not text.strip():
        return "is empty, not a JSON object"
    if text.startswith(_BYTE_ORDER_MARK):
        return "starts with a byte order mark, which JSON does not allow"
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        return _syntax_reason(text, error)
    except _Constant as error:
        return f"has the number {error}, which JSON does not have"
    except _DuplicateKey:
        return "has the same key twice in one object"
    except (ValueError, RecursionError):  # Python's own limits of digits and of depth
        return limit_reason(text) or UNREADABLE
    if not isinstance(value, dict):
        return f"is {_kind_of(value)}, not an object"
    return limit_reason(text) or UNREADABLE


def _refuse_constant(name: str) -> Never:
    raise _Constant(name)


def _unique_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _DuplicateKey
    return found


def _syntax_reason(text: str, error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        return f"has text after the JSON value, at character {error.pos + 1:,}"
    if _is_incomplete(text, error):
        return f"is incomplete JSON: it ends after {len(text):,} character{'s' * (len(text) != 1)}"
    what = error.msg.removesuffix(" at").removesuffix(" starting")
    return f"is not JSON: {what[:1].lower()}{what[1:]} at character {error.pos + 1:,}"


def _is_incomplete(text: str, error: json.JSONDecodeError) -> bool:
    """Whether more text could have completed the value."""
    rest = text[error.pos :].rstrip()
    if not rest or error.msg.startswith("Unterminated string"):
        return True
    return error.msg == "Expecting value" and any(word.startswith(rest) for word in _WORDS)


def limit_reason(text: str) -> str | None:
    """Returns the limit of Spark's parser that the text exceeds, if any."""
    depth = deepest = most_digits = 0
    for token in _TOKENS.finditer(text):
        found = token[0]
        if found in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif found in "]}":
            depth -= 1
        elif found[0] != '"':
            most_digits = max(most_digits, sum(each.isdigit() for each in found))
    if deepest > MAX_DEPTH:
        return f"is nested {deepest:,} levels deep; at most {MAX_DEPTH:,} can be read"
    if most_digits > MAX_DIGITS:
        return f"has a number of {most_digits:,} digits; at most {MAX_DIGITS:,} can be read"
    return None


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "the JSON value null"
        case bool():
            return "a JSON boolean"
        case int() | float():
            return "a JSON number"
        case str():
            return "a JSON string"
    return "a JSON array"
