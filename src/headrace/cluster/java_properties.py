"""Reads `server.properties`, which is in Java's properties format. Pure.

A comment starts with # or !. A name ends at the first =, : or blank. A line that ends with a
backslash continues on the next one. Backslash escapes (\\t \\n \\uXXXX) are decoded. If a
name appears more than once, the last value wins, as in Java.
"""

from collections.abc import Iterator
from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS: Final = " \t\f"


class BadProperties(Exception):
    """The text is not in the format; the message names the line."""


def read_properties(text: str) -> dict[str, str]:
    """The values by name, in the order in which the names first appear."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        name, value = _split_name_and_value(line)
        found[_unescaped(name, number)] = _unescaped(value, number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, joined with their continuations, each with its first line number."""
    pending: str | None = None
    first = 0
    # Not splitlines(): it also splits at characters that are part of a value in Java.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        line = line.lstrip(_BLANKS)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            first, pending = number, ""
        goes_on = _ends_with_open_backslash(line)
        pending += line[:-1] if goes_on else line
        if not goes_on:
            if pending:  # a single backslash is not a name
                yield first, pending
            pending = None
    if pending:
        yield first, pending


def _ends_with_open_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split_name_and_value(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANKS:
        position += 2 if line[position] == "\\" else 1
    name, rest = line[:position], line[position:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return name, rest


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    characters: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            characters.append(character)
            continue
        escape = text[position]
        position += 1
        if escape == "u":
            characters.append(_unicode_character(text[position : position + 4], line))
            position += 4
        else:
            characters.append(_ESCAPES.get(escape, escape))
    return _with_pairs_joined("".join(characters))


def _with_pairs_joined(text: str) -> str:
    """Two escapes of UTF-16 surrogates are one character, as in Java; a lone one stays."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _unicode_character(digits: str, line: int) -> str:
    if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
        raise BadProperties(f"line {line}: \\u needs four hexadecimal digits")
    return chr(int(digits, 16))
