"""How consumed records look: a format string, or one JSON or YAML document each. Pure."""

import json
from collections.abc import Callable
from typing import TypeAlias

from headrace.cli.exits import CommandFailed, usage
from headrace.cli.output import Format
from headrace.cli.records.format_string import Codings, PrintableRecord, Template
from headrace.cli.records.value_encoding import BadValue, decode
from headrace.cli.yaml_text import to_yaml

Printer: TypeAlias = Callable[[PrintableRecord, int], bytes]
"""A record and its number in this run, as bytes for stdout."""


def printer_of(
    form: str, codings: Codings, *, key_separator: str | None = None, headers: bool = False
) -> Printer:
    """What `--format` means: text, json, yaml, or a format string."""
    if form == Format.JSON:
        return _explained(lambda record, count: _json_line(record, codings))
    if form == Format.YAML:
        return _explained(lambda record, count: _yaml_document(record, codings))
    if form == Format.TEXT:
        form = "%v\\n"
        if key_separator is not None:
            form = "%k" + key_separator.replace("%", "%%") + form
        if headers:
            form = "%h\\t" + form
    elif "%" not in form and "\\" not in form:
        raise usage(f"--format is text, json, yaml or a format such as '%k %v\\n', not {form!r}")
    template = Template(form)
    return _explained(lambda record, count: template.render(record, codings, count))


def _explained(inner: Printer) -> Printer:
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
        "key": decode(record.key, codings.key),
        "value": decode(record.value, codings.value),
        "headers": [
            {"key": name, "value": decode(value, codings.header)} for name, value in record.headers
        ],
    }


def _json_line(record: PrintableRecord, codings: Codings) -> bytes:
    return json.dumps(facts_of(record, codings), ensure_ascii=False).encode() + b"\n"


def _yaml_document(record: PrintableRecord, codings: Codings) -> bytes:
    return b"---\n" + to_yaml(facts_of(record, codings)).encode()
