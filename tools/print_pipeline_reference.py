# ruff: noqa: INP001  # a script of its own, not a package
"""Prints docs/pipeline-spec.md from the JSON Schema of the spec.

script/print-pipeline-reference > docs/pipeline-spec.md
"""

import sys
from collections.abc import Iterator
from typing import Any

from headrace.pipeline.spec import json_schema

Schema = dict[str, Any]

INTRODUCTION = """\
# Pipeline spec

This page lists every section and key of a pipeline's YAML file. [Pipelines](guide/pipelines.md)
explains how to use them. Editors complete and check a spec with
[the JSON Schema](pipeline-spec.schema.json), which `headrace pipeline schema` prints.
`headrace pipeline validate` also checks the rules between sections.

- A *duration* is a number with a unit: `500ms`, `10s`, `5m`, `1h`, `7d`.
- A *size* is a number of bytes or a number with a unit: `64MB`, `1GiB`.
- A relative path starts at the directory of the spec.
- `${NAME}` is replaced by an environment variable. Secrets must be given this way.

This page is generated: `script/print-pipeline-reference > docs/pipeline-spec.md`.
"""

SECTIONS = {
    "Sources": ("TopicSource", "StartOffsets", "StartTimestamp", "FileSource", "DeltaSource"),
    "Formats": ("Json", "Avro", "Protobuf", "Csv", "Raw", "Registry"),
    "Transforms and rules": ("SqlStep", "PythonStep", "Expectation", "DeadLetter"),
    "Sinks": ("Delta", "Iceberg", "Parquet", "Topic", "Maintenance"),
    "Several flows": ("FlowSpec",),
    "Settings of other systems": ("Settings",),
}
"""The headings of the page, and the definitions under each."""

TITLES = {
    "TopicSource": ("Topic source", "source: {topics: ...}"),
    "StartOffsets": ("Start offsets", "start: {offsets: ...}"),
    "StartTimestamp": ("Start time", "start: {timestamp: ...}"),
    "FileSource": ("File source", "source: {files: ...}"),
    "DeltaSource": ("Delta source", "source: {delta: ...}"),
    "Json": ("JSON", "value: {format: json}"),
    "Avro": ("Avro", "value: {format: avro, ...}"),
    "Protobuf": ("Protobuf", "value: {format: protobuf, ...}"),
    "Csv": ("CSV", "value: {format: csv, ...}"),
    "Raw": ("Raw", "value: {format: raw}"),
    "Registry": ("Schema registry", "registry: {url: ...}"),
    "SqlStep": ("SQL step", "transform: [{sql: ...}]"),
    "PythonStep": ("Python step", "transform: [{python: ...}]"),
    "Expectation": ("Expectation", "expect: [{name: ..., sql: ...}]"),
    "DeadLetter": ("Dead letter", "dead_letter: {topic: ...}"),
    "Delta": ("Delta sink", "sink: {format: delta, ...}"),
    "Iceberg": ("Iceberg sink", "sink: {format: iceberg, ...}"),
    "Parquet": ("Parquet sink", "sink: {format: parquet, ...}"),
    "Topic": ("Topic sink", "sink: {format: topic, ...}"),
    "Maintenance": ("Maintenance", "maintenance: {...}"),
    "FlowSpec": ("Flow", "flows: [{name: ..., ...}]"),
    "Settings": ("Settings", "kafka: {bootstrap.servers: ...}"),
}
"""The heading of each definition, and where it is written in a spec."""
_WORDS = {"string": "text", "integer": "whole number", "boolean": "true or false"}
_PATTERNS = {
    r"^\d+(\.\d+)? *\w*$": "size",
    r"^\d+(\.\d+)? *(ms|s|m|h|d)$": "duration",
    r"^(once|\d+(\.\d+)? *(ms|s|m|h|d))$": "duration or `once`",
}


def page() -> str:
    """The whole page, with one newline at its end."""
    schema: Schema = json_schema()
    definitions: dict[str, Schema] = schema["$defs"]
    listed = [name for names in SECTIONS.values() for name in names]
    if set(listed) != set(definitions):
        odd = sorted(set(listed) ^ set(definitions))
        msg = f"SECTIONS and the schema differ in {odd}"
        raise ValueError(msg)
    parts = [INTRODUCTION, "## The spec\n", *_section(schema)]
    for heading, names in SECTIONS.items():
        parts.append(f"## {heading}\n")
        for name in names:
            title, place = TITLES[name]
            parts.append(f"### {title}\n\n`{place}`\n")
            parts.extend(_section(definitions[name]))
    return "\n".join(parts).rstrip("\n") + "\n"


def _section(schema: Schema) -> Iterator[str]:
    yield _one_line(schema["description"].split("\n\n")[0]) + "\n"
    yield from (_one_line(each) + "\n" for each in schema["description"].split("\n\n")[1:])
    if not schema.get("properties"):
        return
    yield "| Key | Value | Default | Meaning |\n| --- | --- | --- | --- |"
    required = schema.get("required", ())
    keys: dict[str, Schema] = schema["properties"]
    first = sorted(keys, key=lambda name: (name != "format", name not in required))
    for name, key in ((name, keys[name]) for name in first):
        default = "required" if name in required else _default(key)
        cells = (f"`{name}`", _value(key), default, _one_line(key["description"]))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _value(key: Schema) -> str:
    """What may be written, in words and links."""
    if "$ref" in key:
        name = key["$ref"].rsplit("/", 1)[1]
        title, _ = TITLES[name]
        return f"[{title}](#{title.lower().replace(' ', '-')})"
    if "const" in key:
        return f"`{key['const']}`"
    if "enum" in key:
        return ", ".join(f"`{each}`" for each in key["enum"])
    for several in ("anyOf", "oneOf"):
        if several in key:
            kinds = [_value(each) for each in key[several] if each.get("type") != "null"]
            if "size" in kinds:
                kinds = ["size"]
            return " or ".join(dict.fromkeys(kinds))
    if key.get("pattern") in _PATTERNS:
        return _PATTERNS[key["pattern"]]
    if key["type"] == "array":
        return f"list of {_value(key['items'])}"
    if key["type"] == "object":
        return "mapping"
    if key.get("format") == "date-time":
        return "time"
    return _WORDS.get(key["type"], key["type"])


def _default(key: Schema) -> str:
    default = key.get("default")
    if default is None or isinstance(default, list | dict):
        return ""
    if default == "":
        return "empty text"
    kind = _value(key)
    if kind == "size":
        return f"`{_size(default)}`"
    if kind == "duration":
        return f"`{default / 86400:g}d`"
    return f"`{default}`"


def _size(size_bytes: int) -> str:
    for unit, factor in (("MiB", 2**20), ("MB", 10**6)):
        if size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return str(size_bytes)


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.stdout.write(page())
