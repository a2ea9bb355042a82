"""Parses the records to produce: from lines, JSON, a whole file or the command line. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import CommandFailed
from headrace.cli.records.format_string import Codings, Headers
from headrace.cli.records.value_encoding import BadValue, ValueEncoding, encode


class InputForm(StrEnum):
    """How the input is divided into records."""

    LINES = "lines"
    JSON = "json"
    RAW = "raw"


class InputSource(NamedTuple):
    """A file, or stdin; `name` is for error messages."""

    name: str
    lines: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class InputRecord:
    """A record to send. Without a partition the partitioner chooses; without a timestamp, now."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        parts = [self.key, self.value, *(value for _, value in self.headers)]
        names = sum(len(name.encode()) for name, _ in self.headers)
        return names + sum(len(each) for each in parts if each is not None)


@dataclass(frozen=True, slots=True)
class Shape:
    """The options that apply to all records of a run."""

    codings: Codings = field(default_factory=Codings)
    key: bytes | None = None
    separator: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    empty_is_null: bool = False


def records_of(
    form: InputForm, sources: Iterable[InputSource], shape: Shape
) -> Iterator[InputRecord]:
    """The records of all sources. `CommandFailed` names the source and line of an invalid one."""
    if form is InputForm.RAW:
        whole = b"".join(line for source in sources for line in source.lines)
        yield _make_record(shape, shape.key, whole)
        return
    for source in sources:
        yield from _parse_source(form, source, shape)


def _parse_source(form: InputForm, source: InputSource, shape: Shape) -> Iterator[InputRecord]:
    parse = _parse_json_line if form is InputForm.JSON else _parse_line
    for number, line in enumerate(source.lines, start=1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if form is InputForm.JSON and not text.strip():
            continue
        try:
            record = parse(text, shape)
        except BadValue as error:
            raise CommandFailed(f"{source.name}:{number}: {error}") from error
        yield record


def from_text(value: str, shape: Shape) -> InputRecord:
    """A record for a --value option."""
    try:
        return _make_record(shape, shape.key, encode(value, shape.codings.value))
    except BadValue as error:
        raise usage(f"--value: {error}") from error


def parse_headers(words: Iterable[str], coding: ValueEncoding) -> list[tuple[str, bytes | None]]:
    """`name=value` with a value, `name` with null."""
    headers: list[tuple[str, bytes | None]] = []
    for word in words:
        name, equals, value = word.partition("=")
        if not name:
            raise usage(f"--header takes NAME=VALUE, not {word!r}")
        try:
            headers.append((name, encode(value, coding) if equals else None))
        except BadValue as error:
            raise usage(f"--header {name}: {error}") from error
    return headers


def _make_record(shape: Shape, key: bytes | None, value: bytes) -> InputRecord:
    null = shape.empty_is_null and not value
    return InputRecord(key, None if null else value, shape.headers, shape.partition)


def _parse_line(line: bytes, shape: Shape) -> InputRecord:
    key = shape.key
    if shape.separator is not None:
        before, found, after = line.partition(shape.separator)
        if not found:
            raise BadValue(
                f"no key separator {shape.separator.decode()!r} in {_excerpt(line)}; "
                "omit -K if records have no keys"
            )
        key, line = _encode_bytes(before, shape.codings.key), after
        if shape.empty_is_null and not before:
            key = None
    return _make_record(shape, key, _encode_bytes(line, shape.codings.value))


def _encode_bytes(data: bytes, coding: ValueEncoding) -> bytes:
    if coding in {ValueEncoding.TEXT, ValueEncoding.RAW}:
        return data
    return encode(data.decode("utf-8", "surrogateescape"), coding)


def _excerpt(line: bytes) -> str:
    text = line[:40].decode("utf-8", "backslashreplace")
    return repr(text + ("..." if len(line) > len(text) else ""))


def _parse_json_line(line: bytes, shape: Shape) -> InputRecord:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise BadValue(f"invalid JSON at column {error.colno}: {error.msg}") from error
    except ValueError as error:
        raise BadValue(f"invalid JSON: {error}") from error
    if not isinstance(record, dict) or "value" not in record:
        raise BadValue('a record must be an object such as {"key": "k", "value": "v"}')
    key = _json_part(record, "key", shape.codings.key)
    return InputRecord(
        shape.key if key is None else key,
        _json_part(record, "value", shape.codings.value),
        [*shape.headers, *_json_headers(record.get("headers"), shape.codings.header)],
        _json_int(record, "partition", shape.partition),
        _json_int(record, "timestamp", None),
    )


def _json_part(record: Mapping[str, object], name: str, coding: ValueEncoding) -> bytes | None:
    """A key or a value; `key_encoding` and `value_encoding` override the command line."""
    field = f"{name}_encoding"
    named = record.get(field)
    if named is not None:
        try:
            coding = ValueEncoding(str(named))
        except ValueError:
            known = ", ".join(each.value for each in ValueEncoding)
            raise BadValue(f"{field} must be one of {known}, not {named!r}") from None
    return _json_bytes(record.get(name), coding)


def _json_bytes(value: object, coding: ValueEncoding) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str) and coding is not ValueEncoding.JSON:
        return encode(value, coding)
    if coding in {ValueEncoding.TEXT, ValueEncoding.RAW, ValueEncoding.JSON}:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return encode(str(value), coding)


def _json_headers(headers: object, coding: ValueEncoding) -> Headers:
    if headers is None:
        return []
    if isinstance(headers, Mapping):
        return [(str(name), _json_bytes(value, coding)) for name, value in headers.items()]
    if isinstance(headers, list) and all(
        isinstance(each, Mapping) and "key" in each for each in headers
    ):
        return [(str(each["key"]), _json_part(each, "value", coding)) for each in headers]
    raise BadValue('headers must be an object, or a list of {"key": ..., "value": ...}')


def _json_int(record: Mapping[str, object], name: str, default: int | None) -> int | None:
    value = record.get(name, default)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise BadValue(f"{name} must be a number, not {value!r}")
    return value
