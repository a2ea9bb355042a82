"""Reads `server.properties`: Java's format of properties, as text. Pure.

Comments start with # or !, a name ends at the first =, : or blank, a line that ends with a
backslash goes on, and backslash escapes (\\t \\n \\uXXXX) mean characters. The last of several
lines with one name counts, as in Java.
"""

from collections.abc import Iterator
from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS: Final = " \t\f"


class BadProperties(Exception):
    """The text is not in the format; the message names the line."""


def read_properties(text: str) -> dict[str, str]:
    """Names and values in the order of their first lines."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        name, value = _split(line)
        found[_unescaped(name, number)] = _unescaped(value, number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, each joined with those that go on; with its first number."""
    pending: str | None = None
    first = 0
    # Not splitlines(): it would also cut at characters that Java takes for part of a value.
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
            if pending:  # a backslash and nothing behind it is not a name
                yield first, pending
            pending = None
    if pending:
        yield first, pending


def _ends_with_open_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
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
            characters.append(_unicode(text[position : position + 4], line))
            position += 4
        else:
            characters.append(_ESCAPES.get(escape, escape))
    return _with_pairs_joined("".join(characters))


def _with_pairs_joined(text: str) -> str:
    """Two escapes of UTF-16 surrogates are one character, as in Java; a lone one stays."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _unicode(digits: str, line: int) -> str:
    if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
        raise BadProperties(f"line {line}: \\u needs four hexadecimal digits")
    return chr(int(digits, 16))
