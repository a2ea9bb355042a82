"""Parses a `.proto` text into a file descriptor, as `protoc` does. Pure.

Registries store the text, and no Python package parses it without a compiler. The parser supports
messages, enums, maps, oneofs, nesting, imports, proto2 and proto3. It skips services, extensions
and options.
"""

import re
from typing import Final, NoReturn

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from headrace.pipeline.formats.errors import FormatError

_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<word>\.?[A-Za-z_][\w.]*|-?\d[\w.]*)
      | (?P<sign>[{}\[\]()<>=;,:+-])""",
    re.VERBOSE | re.DOTALL,
)
_SCALARS: Final = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in FieldDescriptorProto.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
_LABELS: Final = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}


def parse_proto(text: str, name: str) -> FileDescriptorProto:
    """Parses the text.

    Raises `FormatError`. The descriptor pool resolves the names of types later.
    """
    return _Parser(text, name).file()


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._tokens: list[str] = []
        self._lines: list[int] = []
        self._at = 0
        self._proto3 = False
        position, line = 0, 1
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                self._at = len(self._lines) + 1
                self._lines.append(line)
                self._fail(repr(text[position]))
            if match.lastgroup:
                self._tokens.append(match[0])
                self._lines.append(line)
            line += match[0].count("\n")
            position = match.end()

    def _fail(self, reason: str) -> NoReturn:
        """Raises `FormatError` with the line of the last token."""
        line = self._lines[self._at - 1] if self._at else 1
        raise FormatError(
            f"the schema {self._name} is not a .proto file: line {line}: {reason} is unexpected"
        )

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            self._fail("the end")
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            self._fail(repr(found))

    def file(self) -> FileDescriptorProto:
        found = FileDescriptorProto(name=self._name)
        while self._peek():
            match self._next():
                case "syntax" | "edition" as word:
                    self._expect("=")
                    version = self._next()[1:-1]
                    self._proto3 = version == "proto3"
                    if word == "edition":
                        self._fail("an edition")
                    if self._proto3:
                        found.syntax = "proto3"
                    self._expect(";")
                case "package":
                    found.package = self._next()
                    self._expect(";")
                case "import":
                    if self._peek() in ("public", "weak"):
                        self._next()
                    found.dependency.append(self._next()[1:-1])
                    self._expect(";")
                case "message":
                    self._message(found.message_type.add())
                case "enum":
                    self._enum(found.enum_type.add())
                case "option" | "service" | "extend":
                    self._skip()
                case ";":
                    pass
                case other:
                    self._fail(repr(other))
        return found

    def _skip(self) -> None:
        """Skips to the end of a statement or its block."""
        depth = 0
        while True:
            match self._next():
                case "{":
                    depth += 1
                case "}":
                    depth -= 1
                    if depth == 0:
                        return
                case ";" if depth == 0:
                    return

    def _message(self, message: DescriptorProto) -> None:
        message.name = self._next()
        self._expect("{")
        while self._peek() != "}":
            match self._peek():
                case "message":
                    self._next()
                    self._message(message.nested_type.add())
                case "enum":
                    self._next()
                    self._enum(message.enum_type.add())
                case "oneof":
                    self._next()
                    self._oneof(message)
                case "option" | "reserved" | "extensions" | "extend":
                    self._skip()
                case ";":
                    self._next()
                case "map" if self._tokens[self._at + 1] == "<":
                    self._map(message)
                case _:
                    self._field(message)
        self._expect("}")
        _add_optional_oneofs(message)

    def _oneof(self, message: DescriptorProto) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._next())
        self._expect("{")
        while self._peek() != "}":
            if self._peek() == "option":
                self._skip()
                continue
            self._field(message).oneof_index = index
        self._expect("}")

    def _field(self, message: DescriptorProto) -> FieldDescriptorProto:
        label = self._next() if self._peek() in _LABELS else ""
        field = message.field.add(label=_LABELS[label or "optional"])
        self._type(field, self._next())
        field.name = self._next()
        if field.type_name == "group":
            self._fail("a group")
        self._number(field)
        if label == "optional" and self._proto3:
            field.proto3_optional = True
        return field

    def _number(self, field: FieldDescriptorProto) -> None:
        self._expect("=")
        number = self._next()
        if not number.isdecimal():
            self._fail(repr(number))
        field.number = int(number)
        if self._peek() == "[":
            while self._next() != "]":
                pass
        self._expect(";")

    @staticmethod
    def _type(field: FieldDescriptorProto, name: str) -> None:
        if name in _SCALARS:
            field.type = _SCALARS[name]
        else:
            field.type_name = name

    def _map(self, message: DescriptorProto) -> None:
        """Adds a map field as `protoc` does: as a repeated message of key and value."""
        self._expect("map")
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        field = message.field.add(name=self._next(), label=FieldDescriptorProto.LABEL_REPEATED)
        self._number(field)
        entry = message.nested_type.add(
            name="".join(part.capitalize() for part in field.name.split("_")) + "Entry"
        )
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), start=1):
            made = entry.field.add(
                name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL
            )
            self._type(made, kind)
        field.type_name = entry.name

    def _enum(self, enum: EnumDescriptorProto) -> None:
        enum.name = self._next()
        self._expect("{")
        while self._peek() != "}":
            if self._peek() == "option":
                self._next()
                allow = self._peek() == "allow_alias"
                self._skip()
                enum.options.allow_alias = allow or enum.options.allow_alias
                continue
            if self._peek() in ("reserved", ";"):
                self._skip()
                continue
            name = self._next()
            self._expect("=")
            number = self._next()
            if number == "-":
                number += self._next()
            enum.value.add(name=name, number=int(number, 0))
            if self._peek() == "[":
                while self._next() != "]":
                    pass
            self._expect(";")
        self._expect("}")


def _add_optional_oneofs(message: DescriptorProto) -> None:
    """Adds a oneof for each `optional` field of proto3, after the declared oneofs."""
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
