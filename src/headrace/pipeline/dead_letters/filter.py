"""Selects dead letters by the comparisons of `--where`. Pure.

    error = NotJson
    error ~ 'amount.*' and source.offset >= 100
    time >= 2026-01-31T12:00:00Z

Fields are compared with =, !=, <, <=, >, >= and ~ (a regular expression that matches anywhere).
All comparisons must hold. There is no `or`: a second call has the same effect.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from headrace.pipeline.dead_letters.dead_letter_reader import Letter

_TERM: Final = re.compile(
    r"""\s*(?P<field>[a-z._]+)\s*(?P<operator>!=|<=|>=|=|<|>|~)\s*
        (?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<word>[^\s'"]+))\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_AND: Final = re.compile(r"and(\s|$)", re.IGNORECASE)

_TEXTS: Final[Mapping[str, Callable[[Letter], str]]] = {
    "error": lambda letter: letter.facts.error,
    "message": lambda letter: letter.facts.message,
    "source.topic": lambda letter: letter.facts.topic,
    "source.file": lambda letter: letter.facts.file,
    "pipeline": lambda letter: letter.facts.pipeline,
}
_NUMBERS: Final[Mapping[str, Callable[[Letter], int]]] = {
    "source.partition": lambda letter: letter.facts.partition,
    "source.offset": lambda letter: letter.facts.offset,
    "source.line": lambda letter: letter.facts.line,
    "source.row": lambda letter: letter.facts.row,
    "source.version": lambda letter: letter.facts.version,
    "partition": lambda letter: letter.at.partition,
    "offset": lambda letter: letter.offset,
    "batch": lambda letter: letter.facts.batch_id,
    "schema": lambda letter: letter.facts.schema_version,
    "attempts": lambda letter: letter.facts.attempts,
}
_TIMES: Final[Mapping[str, Callable[[Letter], int]]] = {
    "time": lambda letter: letter.record.timestamp,
    "source.time": lambda letter: letter.facts.timestamp_ms,
}
FIELDS: Final = (*_TEXTS, *_NUMBERS, *_TIMES)
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Condition = Callable[[Letter], bool]


class BadFilter(ValueError):
    """An invalid `--where`. The message names the invalid part and the valid syntax."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects letters for which all conditions hold; without conditions, every letter."""

    conditions: tuple[Condition, ...] = ()

    def __call__(self, letter: Letter) -> bool:
        return all(condition(letter) for condition in self.conditions)


def parse_filter(*texts: str) -> Filter:
    """Combines all texts into one filter; raises `BadFilter`."""
    conditions: list[Condition] = []
    for text in texts:
        rest = text.strip()
        while rest:
            match = _TERM.match(rest)
            if match is None:
                raise BadFilter(
                    f"{rest!r} is not a comparison; write e.g. error = NotJson, with one of "
                    f"{', '.join(FIELDS)}"
                )
            value = next(
                each
                for each in (match["single"], match["double"], match["word"])
                if each is not None
            )
            conditions.append(_condition(match["field"].lower(), match["operator"], value))
            rest = rest[match.end() :]
            if rest:
                joined = _AND.match(rest)
                if joined is None:
                    raise BadFilter(f"{rest!r}: comparisons are joined by `and`")
                rest = rest[joined.end() :]
                if not rest.strip():
                    raise BadFilter(f"{text!r} ends with `and`")
    return Filter(tuple(conditions))


def _condition(field: str, sign: str, value: str) -> Condition:
    if field in _TEXTS:
        return _text_condition(_TEXTS[field], sign, value)
    if sign == "~":
        raise BadFilter(f"~ is for text, and {field} is none")
    if field in _NUMBERS:
        if not re.fullmatch(r"-?\d+", value):
            raise BadFilter(f"{field} is a number, not {value!r}")
        return _compare(_NUMBERS[field], sign, int(value))
    if field in _TIMES:
        return _compare(_TIMES[field], sign, _time_ms(field, value))
    raise BadFilter(f"there is no field {field!r}; there are {', '.join(FIELDS)}")


def _text_condition(take: Callable[[Letter], str], sign: str, value: str) -> Condition:
    if sign != "~":
        return _compare(take, sign, value)
    try:
        pattern = re.compile(value)
    except re.error as error:
        raise BadFilter(f"{value!r} is not a regular expression: {error}") from None
    return lambda letter: pattern.search(take(letter)) is not None


def _compare(take: Callable[[Letter], object], sign: str, value: object) -> Condition:
    compared = _COMPARED[sign]
    return lambda letter: compared(take(letter), value)


def _time_ms(field: str, value: str) -> int:
    """Parses milliseconds, or a date and time, which is UTC if it has no offset."""
    if value.isdecimal():
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise BadFilter(f"{field} is a time such as 2026-01-31T12:00:00Z, not {value!r}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
