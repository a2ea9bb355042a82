"""Format strings for records, similar to those of kcat and rpk. Pure.

    %t topic    %p partition    %o offset    %k key    %v value    %h headers    %d timestamp
    %K and %V   length of key and value in bytes (-1 for null)     %e leader epoch
    %i          number of the record in this run                   %% a percent sign
    %d is in milliseconds; %d{iso} is ISO 8601, %d{%H:%M} a strftime format, both in UTC

Backslash escapes: \\n \\t \\r \\0 \\\\ \\xNN. No newline is added: end the format with \\n.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from headrace.cli.control_characters import escape_controls
from headrace.cli.error_messages import usage
from headrace.cli.records.value_encoding import ValueEncoding, shown
from headrace.cli.timestamps import iso_time, utc_time

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", "e": "\x1b"}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.)|$)", re.DOTALL)
_FIELDS: Final = "tpokvhdKVeisST"


@dataclass(frozen=True, slots=True)
class PrintableRecord:
    """A record of a partition; the timestamp is -1 if it has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Codings:
    """The encodings of key, value and headers."""

    key: ValueEncoding = ValueEncoding.TEXT
    value: ValueEncoding = ValueEncoding.TEXT
    header: ValueEncoding = ValueEncoding.TEXT
    for_terminal: bool = False
    """Whether control characters are printed as escapes."""


Part: TypeAlias = Callable[[PrintableRecord, Codings, int], bytes]


class Template:
    """A parsed format string."""

    def __init__(self, text: str) -> None:
        self._parts = list(_parse(text))

    def render(self, record: PrintableRecord, codings: Codings, count: int = 1) -> bytes:
        """The bytes to print; `count` is the number of the record in this run."""
        return b"".join(part(record, codings, count) for part in self._parts)


def unescape(text: str) -> str:
    """Replaces backslash escapes by their characters."""

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        if found[2] is None or found[2] not in _ESCAPES:
            raise usage(
                f"unknown escape {found[0]!r} in {text!r}; known: \\n \\t \\r \\0 \\\\ \\xNN"
            )
        return _ESCAPES[found[2]]

    return _ESCAPE.sub(replaced, text)


def show_headers(headers: Headers, codings: Codings) -> bytes:
    """The headers as `a=1,b=2`; a header with a null value is `a`."""
    return b",".join(_header(name, value, codings) for name, value in headers)


def _header(name: str, value: bytes | None, codings: Codings) -> bytes:
    start = (escape_controls(name) if codings.for_terminal else name).encode()
    if value is None:
        return start
    return start + b"=" + shown(value, codings.header, for_terminal=codings.for_terminal)


def _parse(text: str) -> list[Part]:
    parts: list[Part] = []
    at = 0
    while at < len(text):
        percent = text.find("%", at)
        if percent < 0:
            parts.append(_literal(text[at:]))
            break
        if percent > at:
            parts.append(_literal(text[at:percent]))
        name = text[percent + 1 : percent + 2]
        at = percent + 2
        if name == "%":
            parts.append(_literal("%"))
        elif name == "d" and text[at : at + 1] == "{":
            close = text.find("}", at)
            if close < 0:
                raise usage(f"the format {text!r} has %d{{ without a closing }}")
            parts.append(_time(text[at + 1 : close]))
            at = close + 1
        elif name and name in _FIELDS:
            parts.append(_FIELD[name])
        else:
            raise usage(
                f"unknown field %{name} in the format; known: "
                "%t %p %o %k %v %h %d %K %V %e %i, and %% for a percent sign"
            )
    return parts


def _literal(text: str) -> Part:
    data = unescape(text).encode("utf-8", "surrogateescape")
    return lambda record, codings, count: data


def _time(how: str) -> Part:
    if how in {"iso", ""}:
        return lambda record, codings, count: iso_time(record.timestamp_ms).encode()
    return lambda record, codings, count: utc_time(record.timestamp_ms).strftime(how).encode()


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else str(len(data)).encode()


_FIELD: Final[dict[str, Part]] = {
    "t": lambda record, codings, count: record.topic.encode(),
    "p": lambda record, codings, count: str(record.partition).encode(),
    "o": lambda record, codings, count: str(record.offset).encode(),
    "k": lambda record, codings, count: shown(
        record.key, codings.key, for_terminal=codings.for_terminal
    ),
    "v": lambda record, codings, count: shown(
        record.value, codings.value, for_terminal=codings.for_terminal
    ),
    "h": lambda record, codings, count: show_headers(record.headers, codings),
    "d": lambda record, codings, count: str(record.timestamp_ms).encode(),
    "K": lambda record, codings, count: _length(record.key),
    "V": lambda record, codings, count: _length(record.value),
    "e": lambda record, codings, count: str(record.leader_epoch or 0).encode(),
    "i": lambda record, codings, count: str(count).encode(),
}
# kcat's names for the value, its length and the timestamp.
_FIELD.update({"s": _FIELD["v"], "S": _FIELD["V"], "T": _FIELD["d"]})
