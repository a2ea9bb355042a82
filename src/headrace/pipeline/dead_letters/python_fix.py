"""Fixes dead letters with a user's Python function before they are replayed.

def repair(record):
    order = record.json()
    order["amount"] = float(order["amount"].replace(",", "."))
    record.value = order
    return record
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.pipeline.dead_letters.dead_letter_reader import Letter
from headrace.pipeline.dead_letters.headers import Facts, own_headers
from headrace.records.record import Headers


class NotFixed(Exception):
    """The reason why a letter cannot be replayed."""


@dataclass(slots=True)
class DraftRecord:
    """A record before its replay. A fix may change it; `facts` has its source."""

    key: bytes | str | None
    value: object
    headers: Headers
    facts: Facts

    def json(self) -> object:
        """The value, parsed; raises ValueError."""
        if not isinstance(self.value, bytes | str):
            raise ValueError("the record has no value")
        return json.loads(self.value)


class Fix(Protocol):
    """Changes letters before they are replayed; returns one result for each."""

    def __call__(self, letters: Sequence[Letter]) -> Sequence[DraftRecord | NotFixed]:
        """The changed record of each letter, or the reason why it is not replayed."""
        ...


def draft_of(letter: Letter) -> DraftRecord:
    record = letter.record
    return DraftRecord(record.key, record.value, own_headers(record.headers), letter.facts)


def unchanged(letters: Sequence[Letter]) -> Sequence[DraftRecord | NotFixed]:
    """The fix that changes nothing."""
    return [draft_of(letter) for letter in letters]


class PythonFix:
    """A function that takes a `DraftRecord` and returns it, or None to skip the dead letter."""

    def __init__(self, name: str) -> None:
        from headrace.pipeline.batch.transform import load_function  # loads Arrow

        function: Callable[[DraftRecord], object] = load_function(name)  # type: ignore[assignment]
        self._name = name
        self._function = function

    def __call__(self, letters: Sequence[Letter]) -> Sequence[DraftRecord | NotFixed]:
        return [self._one(letter) for letter in letters]

    def _one(self, letter: Letter) -> DraftRecord | NotFixed:
        try:
            made = self._function(draft_of(letter))
        except Exception as error:  # the user's function may raise anything
            return NotFixed(f"{self._name}: {type(error).__name__}: {error}")
        if made is None:
            return NotFixed(f"{self._name} returned None")
        if not isinstance(made, DraftRecord):
            return NotFixed(f"{self._name} returned {type(made).__name__}, not the record")
        return made


def as_bytes(value: object, what: str) -> bytes | None:
    """Encodes a value: bytes and text unchanged, other types as JSON; raises `NotFixed`."""
    if value is None or isinstance(value, bytes):
        return value
    try:
        if isinstance(value, str):
            return value.encode()
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotFixed(f"the {what} cannot be written as JSON: {error}") from None


def checked_headers(given: object) -> Headers:
    """Checks and encodes the headers that a fix returns; raises `NotFixed`."""
    wanted = "headers are pairs of a name and bytes"
    if not isinstance(given, list | tuple):
        raise NotFixed(f"{wanted}, not {type(given).__name__}")
    found: list[tuple[str, bytes | None]] = []
    for each in given:
        if not (isinstance(each, list | tuple) and len(each) == 2 and isinstance(each[0], str)):
            raise NotFixed(f"{wanted}, not {each!r:.60}")
        name, value = each
        if not isinstance(value, str | bytes | None):
            raise NotFixed(f"{wanted}; {name} is {type(value).__name__}")
        found.append((name, as_bytes(value, f"header {name}")))
    return tuple(found)
