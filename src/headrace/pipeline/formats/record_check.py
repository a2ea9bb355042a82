"""The checks of one record as SQL, and the SQL that makes the `_error` of a bad record."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.pipeline.core.columns import ERROR_TYPE
from headrace.pipeline.formats.bad_record import BadRecord


def literal(text: str) -> str:
    """Returns the text as a SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def options_map(options: Mapping[str, str | None]) -> str:
    """Returns the options of a SQL function as a SQL map, without options that are None."""
    pairs = ", ".join(
        f"{literal(name)}, {literal(value)}" for name, value in options.items() if value is not None
    )
    return f"map({pairs})"


def problem(kind: BadRecord, message: str, action: str) -> str:
    """Returns the SQL of an `_error`. `message` is a SQL expression."""
    return (
        f"named_struct('class', {literal(kind)}, 'message', {message}, 'action', {literal(action)})"
    )


class RecordCheck(NamedTuple):
    """One check of a record: the condition for an error, and the message as SQL."""

    condition: str
    kind: BadRecord
    message: str


def not_utf8(text: str, prefix: str = "") -> RecordCheck:
    """Returns the check of the bytes of a text, which is a SQL expression."""
    message = literal(f"{prefix}is not UTF-8")
    return RecordCheck(f"NOT is_valid_utf8({text})", BadRecord.INVALID_UTF8, message)


def verdict(good: str, checks: Iterable[RecordCheck], action: str) -> str:
    """Returns the SQL of `_error` from the first check that applies.

    It is null if `good` is true or no check applies. Higher-order functions would be shorter in
    places. But Spark interprets them, which slows down every record, also the good ones.
    """
    branches = " ".join(
        f"WHEN {each.condition} THEN {problem(each.kind, each.message, action)}" for each in checks
    )
    return f"CASE WHEN {good} THEN CAST(NULL AS {ERROR_TYPE}) {branches} END"
