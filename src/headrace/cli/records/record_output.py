"""Prints consumed records: with a format string, or as one JSON or YAML document each. Pure.

JSON and YAML keep every byte: a key, value or header that is not UTF-8 is base64, with a field
beside it that says so:

    {"key": "k", "value": "/wA=", "value_encoding": "base64", ...}

The field also names the decoder of the command line. `headrace produce --input json` reads it back.
"""

import json
from collections.abc import Callable
from typing import TypeAlias

from headrace.cli.control_characters import escape_controls
from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import CommandFailed
from headrace.cli.output import Format
from headrace.cli.records.format_string import Codings, PrintableRecord, Template
from headrace.cli.records.value_encoding import BadValue, ValueEncoding, decode, is_utf8
from headrace.cli.yaml_text import to_yaml

Printer: TypeAlias = Callable[[PrintableRecord, int], bytes]
"""Turns a record and its number in this run into bytes for stdout."""


def printer_of(
    form: str, codings: Codings, *, key_separator: str | None = None, headers: bool = False
) -> Printer:
    """The printer for `--format`: text, json, yaml, or a format string."""
    if form == Format.JSON:
        return _with_decoding_errors(lambda record, count: _json_line(record, codings))
    if form == Format.YAML:
        return _with_decoding_errors(lambda record, count: _yaml_document(record, codings))
    if form == Format.TEXT:
        form = "%v\\n"
        if key_separator is not None:
            form = "%k" + key_separator.replace("%", "%%") + form
        if headers:
            form = "%h\\t" + form
    elif "%" not in form and "\\" not in form:
        raise usage(f"--format takes text, json, yaml or a format such as '%k %v\\n', not {form!r}")
    template = Template(form)
    return _with_decoding_errors(lambda record, count: template.render(record, codings, count))


def _with_decoding_errors(inner: Printer) -> Printer:
    def show(record: PrintableRecord, count: int) -> bytes:
        try:
            return inner(record, count)
        except BadValue as error:
            raise CommandFailed(
                f"{record.topic}-{record.partition} offset {record.offset}: {error}; "
                "choose another --key-decoder or --value-decoder, such as hex"
            ) from error

    return show


def facts_of(record: PrintableRecord, codings: Codings) -> dict[str, object]:
    """A record as plain values; `headrace produce --input json` reads them back."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **_part_facts("key", record.key, codings.key),
        **_part_facts("value", record.value, codings.value),
        "headers": [
            {"key": name, **_part_facts("value", value, codings.header)}
            for name, value in record.headers
        ],
    }


def _part_facts(name: str, data: bytes | None, coding: ValueEncoding) -> dict[str, object]:
    """A key or a value, with its encoding unless it is plain text."""
    if data is None:
        return {name: None}
    if coding in {ValueEncoding.TEXT, ValueEncoding.RAW}:
        coding = ValueEncoding.TEXT if is_utf8(data) else ValueEncoding.BASE64
    part = {name: decode(data, coding)}
    return part if coding is ValueEncoding.TEXT else {**part, f"{name}_encoding": coding.value}


def _json_line(record: PrintableRecord, codings: Codings) -> bytes:
    return (
        _encode_for_output(json.dumps(facts_of(record, codings), ensure_ascii=False), codings)
        + b"\n"
    )


def _yaml_document(record: PrintableRecord, codings: Codings) -> bytes:
    return b"---\n" + _encode_for_output(to_yaml(facts_of(record, codings)), codings)


def _encode_for_output(text: str, codings: Codings) -> bytes:
    return (escape_controls(text) if codings.for_terminal else text).encode()
