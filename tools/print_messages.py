# ruff: noqa: INP001  # a script of its own, not a package
"""Prints the declarations of one API from the message schemas inside Kafka's clients jar.

    script/print-messages kafka-clients-4.3.1.jar Fetch > src/headrace/protocol/messages/fetch.py

The schemas say which fields a message has; what a message is for is ours to say, so the printed
module holds a first line only. Fields and ranges that no served version has are left out.
"""

import json
import re
import sys
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = "common/message/"
OPEN_END = 0x7FFF
LINE_CHARACTERS = 100

PRIMITIVES = {
    "int8": ("int8", "0"),
    "int16": ("int16", "0"),
    "uint16": ("uint16", "0"),
    "int32": ("int32", "0"),
    "uint32": ("uint32", "0"),
    "int64": ("int64", "0"),
    "float64": ("float64", "0.0"),
    "bool": ("boolean", "False"),
    "uuid": ("uuid", "ZERO_UUID"),
    "string": ("string", '""'),
    "bytes": ("bytes_", 'b""'),
    "records": ("record_set", 'b""'),
}
NULLABLE = {
    "string": "nullable_string",
    "bytes_": "nullable_bytes",
    "record_set": "nullable_record_set",
}


@dataclass(frozen=True)
class Range:
    """A closed range of versions."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Range | None":
        """Kafka's notation: `3`, `3-7`, `3+` or `none`."""
        if text == "none":
            return None
        if text.endswith("+"):
            return cls(int(text[:-1]), OPEN_END)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def within(self, outer: "Range") -> "Range | None":
        """What both ranges have in common."""
        first, last = max(self.first, outer.first), min(self.last, outer.last)
        return Range(first, last) if first <= last else None


class Schemas:
    """The schemas of a jar, and the struct names that more than one of them uses."""

    def __init__(self, jar: Path) -> None:
        self._messages: dict[str, dict[str, Any]] = {}
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith(FOLDER) and name.endswith(".json"):
                    text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                    message = json.loads(text)
                    if message["validVersions"] != "none":
                        self._messages[message["name"]] = message
        uses = Counter(
            name for message in self._messages.values() for name in struct_names(message)
        )
        self._shared = {name for name, count in uses.items() if count > 1}

    def message(self, name: str) -> dict[str, Any]:
        """The schema of one message."""
        return self._messages[name]

    def struct_name(self, name: str, message: dict[str, Any]) -> str:
        """A struct's name in our source: its own, unless other messages have one like it."""
        if name not in self._shared:
            return name
        prefix = re.sub(r"(Request|Response)$", "", message["name"])
        if name.startswith(prefix):
            return name
        pair = [self._messages.get(prefix + end) for end in ("Request", "Response")]
        both = all(each is not None and name in struct_names(each) for each in pair)
        return (message["name"] if both else prefix) + name


def struct_names(message: dict[str, Any]) -> set[str]:
    """The names of all structs that a schema declares."""
    found = {each["name"] for each in message.get("commonStructs", ())}
    pending = [message["fields"], *(each["fields"] for each in message.get("commonStructs", ()))]
    while pending:
        for field in pending.pop():
            if "fields" in field:
                found.add(field["type"].removeprefix("[]"))
                pending.append(field["fields"])
    return found


def snake(name: str) -> str:
    """`PartitionIndex` -> `partition_index`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class Printer:
    """Collects the declarations of an API's messages, innermost structs first."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._types: set[str] = set()
        self._classes: dict[str, str] = {}
        self._uses_field = False

    def add(self, message: dict[str, Any]) -> None:
        """Add one message and the structs inside it."""
        self._message = message
        versions = Range.parse(message["validVersions"])
        assert versions is not None
        common = {each["name"]: each for each in message.get("commonStructs", ())}
        self._common = common
        flexible = Range.parse(message["flexibleVersions"])
        options = f"versions=({versions.first}, {versions.last})"
        if flexible is not None:
            options += f", flexible_since={flexible.first}"
        self._struct(message["name"], message["fields"], versions, options)

    def module(self, first_line: str) -> str:
        """The finished module."""
        names = "Struct, field" if self._uses_field else "Struct"
        imports = [f"from headrace.protocol.struct import {names}"]
        if self._types:
            ordered = sorted(self._types, key=lambda name: (not name.isupper(), name))
            line = f"from headrace.protocol.types import {', '.join(ordered)}"
            if len(line) > LINE_CHARACTERS:
                inner = "".join(f"    {name},\n" for name in ordered)
                line = f"from headrace.protocol.types import (\n{inner})"
            imports.append(line)
        head = f'"""{first_line}"""\n\n' + "\n".join(imports)
        return "\n\n\n".join([head, *self._classes.values()]) + "\n"

    def _struct(self, name: str, fields: list[Any], present: Range, options: str = "") -> None:
        lines = []
        for field in fields:
            line = self._field(field, present)
            if line is not None:
                lines.append(line)
        bases = f"Struct, {options}" if options else "Struct"
        self._classes[name] = f"class {name}({bases}):\n" + ("\n".join(lines) or "    pass")

    def _field(self, field: dict[str, Any], present: Range) -> str | None:
        declared = Range.parse(field["versions"])
        versions = declared.within(present) if declared else None
        if versions is None:
            return None
        options: list[str] = []
        if versions.first > present.first:
            options.append(f"since={versions.first}")
        if versions.last < present.last:
            options.append(f"until={versions.last}")
        if "tag" in field:
            tagged = Range.parse(field["taggedVersions"])
            assert tagged is not None
            assert tagged.within(present) == versions, f"{field['name']}: tagged in part only"
            options.append(f"tag={field['tag']}")
        nullable = Range.parse(field.get("nullableVersions", "none"))
        nullable = nullable.within(versions) if nullable else None
        if nullable is not None:
            assert nullable.last == versions.last, f"{field['name']}: nullable for a while only"
            if nullable.first > versions.first:
                options.append(f"nullable_since={nullable.first}")
        if field.get("ignorable") in (True, "true") and versions != present:
            options.append("ignorable=True")
        if field.get("flexibleVersions") == "none":
            options.append("compact=False")
        annotation, default = self._type(field, versions, nullable is not None)
        name = snake(field["name"])
        if options or default.startswith("default_factory"):
            self._uses_field = True
            if not default.startswith("default_factory"):
                default = f"default={default}"
            default = f"field({', '.join([*options, default])})"
        line = f"    {name}: {annotation} = {default}"
        if len(line) > LINE_CHARACTERS:
            line = line.replace("field(", "field(\n        ")[:-1] + "\n    )"
        return line

    def _type(self, field: dict[str, Any], versions: Range, nullable: bool) -> tuple[str, str]:
        declared = field["type"]
        element = declared.removeprefix("[]")
        array = element != declared
        if element in PRIMITIVES:
            annotation, default = PRIMITIVES[element]
            self._types.add(NULLABLE[annotation] if nullable and not array else annotation)
        else:
            annotation = self._nested(element, field, versions)
            default = f"default_factory={annotation}"
        if array:
            annotation, default = f"list[{annotation}]", "default_factory=list"
        if nullable:
            annotation = NULLABLE.get(annotation, f"{annotation} | None")
        if nullable and element == "records":
            default = "None"
        default = self._default(field, element, default)
        if default == "ZERO_UUID":
            self._types.add(default)
        return annotation, default

    def _nested(self, element: str, field: dict[str, Any], versions: Range) -> str:
        name = self._schemas.struct_name(element, self._message)
        if "fields" in field:
            self._struct(name, field["fields"], versions)
        elif name not in self._classes:
            whole = Range.parse(self._message["validVersions"])
            assert whole is not None
            self._struct(name, self._common[element]["fields"], whole)
        return name

    @staticmethod
    def _default(field: dict[str, Any], element: str, implied: str) -> str:
        if "default" not in field:
            return implied
        value = str(field["default"])
        if value == "null":
            return "None"
        if element == "bool":
            return value.capitalize()
        if element == "string":
            return f'"{value}"'
        return str(int(value, 0)) if element.startswith(("int", "uint")) else value


def describe(message: dict[str, Any]) -> str:
    """The first line of a module: key and versions."""
    name = message["name"].removesuffix("Request")
    flexible = Range.parse(message["flexibleVersions"])
    end = f"flexible from {flexible.first}" if flexible else "none flexible"
    return f"{name} (key {message['apiKey']}): versions {message['validVersions']}, {end}."


def main() -> None:
    """Print one module to standard output."""
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} <kafka-clients jar> <API, or names of schemas>")
    schemas = Schemas(Path(sys.argv[1]))
    names = sys.argv[2:]
    if len(names) == 1 and not names[0].endswith(("Request", "Response")):
        names = [names[0] + "Request", names[0] + "Response"]
    printer = Printer(schemas)
    for name in names:
        printer.add(schemas.message(name))
    first = schemas.message(names[0])
    sys.stdout.write(printer.module(describe(first) if "apiKey" in first else names[0]))


if __name__ == "__main__":
    main()
