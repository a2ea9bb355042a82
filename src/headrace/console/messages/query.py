"""A visitor's search for records: where to begin, which filters. Pure.

A filter on text, key or header also gives *needles*: bytes that must be in a batch for any of its
records to match. They are looked for in the decompressed bytes, before records are decoded.
"""

import json
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
_ESCAPED: Final = re.compile(rb'[\x00-\x1f"\\]')
_UNICODE_ESCAPE: Final = re.compile(r"\\u([0-9a-f]{4})")


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
    texts: tuple[bytes, ...] = field(init=False)
    """The text as it is, and as JSON writes it with escapes; one of them must be found."""
    needles: tuple[bytes, ...] = field(init=False)
    """All of them must be found, beside one of `texts`."""

    def __post_init__(self) -> None:
        texts = json_spellings(self.text)
        if self.ignores_case:
            texts = tuple(dict.fromkeys(each.lower() for each in texts))
        needles = [self.key or b""]
        if self.header is not None:
            needles += [self.header.name.encode(), self.header.value or b""]
        # The longest is the rarest, as a rule.
        found = sorted(filter(None, needles), key=len, reverse=True)
        object.__setattr__(self, "texts", texts)
        object.__setattr__(self, "needles", tuple(found))

    @property
    def has_filter(self) -> bool:
        return self.has_needles or self.key is not None or self.json is not None

    @property
    def has_needles(self) -> bool:
        """Whether `may_match` can rule out bytes."""
        return bool(self.texts or self.needles)

    @property
    def follows(self) -> bool:
        return self.position.kind == "tail"

    def may_match(self, data: bytes) -> bool:
        """Whether a record in these decompressed bytes can match."""
        if not all(needle in data for needle in self.needles):
            return False
        return not self.texts or self._contains_text(data)

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
        return any(self._contains_text(place) for place in places if place)

    def _contains_text(self, data: bytes) -> bool:
        if self.ignores_case:
            data = data.lower()
        return any(text in data for text in self.texts)


def json_spellings(text: bytes) -> tuple[bytes, ...]:
    """The text, and its spellings within a JSON string: with or without escapes of non-ASCII."""
    if not text or (text.isascii() and not _ESCAPED.search(text)):
        return (text,) if text else ()
    try:
        plain = text.decode()
    except UnicodeDecodeError:
        return (text,)
    escaped = json.dumps(plain)[1:-1]
    upper = _UNICODE_ESCAPE.sub(lambda found: "\\u" + found[1].upper(), escaped)
    least = json.dumps(plain, ensure_ascii=False)[1:-1]
    return tuple(dict.fromkeys((text, least.encode(), escaped.encode(), upper.encode())))


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
