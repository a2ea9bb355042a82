"""A visitor's search for records: where to begin, which filters. Pure.

A filter on text, key or header also gives *needles*: bytes that must be in a batch for any of its
records to match. They are looked for in the decompressed bytes, before records are decoded.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from jsonpath import JSONPathEnvironment
from jsonpath.exceptions import JSONPathError

from headrace.console.messages.decoding import Coding, Decoder, from_text
from headrace.records.record import Record

MAX_LIMIT: Final = 500
DEFAULT_LIMIT: Final = 50
MAX_PATH_CHARS: Final = 1_000
POSITIONS: Final = ("newest", "oldest", "offset", "time", "tail")
_UNIX_MS: Final = re.compile(r"\d{10,14}")
_SECONDS_DIGITS: Final = 10


class BadQuery(ValueError):
    """A field of the search cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where to begin: one of `POSITIONS`; `value` is an offset, or a time in Unix milliseconds."""

    kind: str
    value: int = 0


@dataclass(frozen=True, slots=True)
class HeaderFilter:
    """A header with this name, and this value if one is given."""

    name: str
    value: bytes | None

    def matches(self, record: Record) -> bool:
        return any(
            name == self.name and (self.value is None or value == self.value)
            for name, value in record.headers
        )


class JsonFilter:
    """A JSONPath that must select something in the value.

    `$.customer.id` selects a field. `@.total > 100` compares fields of the value itself: it stands
    for the filter `$[?@.total > 100]` on a list that has only the value.
    """

    def __init__(self, text: str) -> None:
        text = text.strip()
        if len(text) > MAX_PATH_CHARS:
            raise BadQuery(f"the JSONPath is longer than {MAX_PATH_CHARS:,} characters")
        is_condition = not text.startswith("$")
        self._in_list = is_condition or text.startswith("$[?")
        try:
            self._path = _environment().compile(f"$[?{text}]" if is_condition else text)
        except (JSONPathError, RecursionError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BadQuery(f"this is not a JSONPath: {reason}") from None

    def matches(self, value: object) -> bool:
        data: Any = [value] if self._in_list else value
        try:
            return self._path.match(data) is not None
        except (JSONPathError, RecursionError, TypeError, ValueError):
            return False


def _environment() -> JSONPathEnvironment:
    """JSONPath without regular expressions: a hostile one would hold the interpreter for ever."""
    environment = JSONPathEnvironment()
    for name in ("match", "search"):
        environment.function_extensions.pop(name, None)
    return environment


@dataclass(frozen=True, slots=True)
class Query:
    """The whole search."""

    position: Position
    partition: int | None = None
    limit: int = DEFAULT_LIMIT
    text: bytes = b""
    ignores_case: bool = False
    """Of ASCII letters."""
    key: bytes | None = None
    header: HeaderFilter | None = None
    json: JsonFilter | None = None
    committed_only: bool = True
    value_coding: Coding = Coding.AUTO
    needles: tuple[bytes, ...] = field(init=False)

    def __post_init__(self) -> None:
        needles = [self.text.lower() if self.ignores_case else self.text, self.key or b""]
        if self.header is not None:
            needles += [self.header.name.encode(), self.header.value or b""]
        # The longest is the rarest, as a rule.
        found = sorted(filter(None, needles), key=len, reverse=True)
        object.__setattr__(self, "needles", tuple(found))

    @property
    def has_filter(self) -> bool:
        return bool(self.needles) or self.key is not None or self.json is not None

    @property
    def follows(self) -> bool:
        return self.position.kind == "tail"

    def may_match(self, data: bytes) -> bool:
        """Whether a record in these decompressed bytes can match."""
        if not self.ignores_case:
            return all(needle in data for needle in self.needles)
        text = self.text.lower()
        others = (needle for needle in self.needles if needle != text)
        return text in data.lower() and all(needle in data for needle in others)

    def matches(self, record: Record, decoder: Decoder) -> bool:
        """Whether the record passes all filters, the cheap ones first."""
        if self.key is not None and record.key != self.key:
            return False
        if self.header is not None and not self.header.matches(record):
            return False
        if self.text and not self._has_text(record):
            return False
        if self.json is None:
            return True
        is_data, value = decoder.object_of(record.value, self.value_coding)
        return is_data and self.json.matches(value)

    def _has_text(self, record: Record) -> bool:
        places: list[bytes | None] = [record.value, record.key]
        for name, value in record.headers:
            places += [name.encode(errors="surrogateescape"), value]
        if self.ignores_case:
            text = self.text.lower()
            return any(text in place.lower() for place in places if place)
        return any(self.text in place for place in places if place)


def key_of(text: str, coding: str) -> bytes | None:
    """The key to look for; None without one."""
    if not text:
        return None
    try:
        return from_text(text, Coding(coding))
    except ValueError as error:
        raise BadQuery(f"key: {error}") from None


def header_filter(text: str) -> HeaderFilter | None:
    """`name=value`, or `name` for any value."""
    name, equals, value = text.partition("=")
    if not text:
        return None
    if not name:
        raise BadQuery("a header filter is NAME=VALUE, or NAME for any value")
    return HeaderFilter(name.strip(), value.encode() if equals else None)


def time_of(text: str) -> int:
    """Unix milliseconds of an ISO time (UTC unless it says otherwise) or of a number."""
    text = text.strip()
    if _UNIX_MS.fullmatch(text):
        return int(text) * (1000 if len(text) == _SECONDS_DIGITS else 1)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadQuery(
            f"{text[:40]!r} is not a time: use 2026-11-19T21:30, or Unix milliseconds"
        ) from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return int(at.timestamp() * 1000)


def first_window(query: Query, partitions: Sequence[int]) -> int:
    """How many offsets to read first in each partition, from the end backwards."""
    share = -(-query.limit // max(1, len(partitions)))
    return max(share, FILTERED_WINDOW) if query.has_filter else share


FILTERED_WINDOW: Final = 5_000
WINDOW_GROWTH: Final = 4


def windows_backwards(start: int, end: int, first: int) -> list[tuple[int, int]]:
    """Ranges of offsets from the end to the start, each larger than the one before."""
    found, size = [], max(1, first)
    while end > start:
        begin = max(start, end - size)
        found.append((begin, end))
        end, size = begin, size * WINDOW_GROWTH
    return found
