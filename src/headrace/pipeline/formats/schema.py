"""Schemas: columns with Spark's type names, from DDL or JSON Schema. Pure.

Spark's own DDL parser needs a running session, which `validate` does not have.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from headrace.pipeline.core.columns import TAKEN
from headrace.pipeline.formats.errors import FormatError

_PRIMITIVES: Final = {
    "boolean": "boolean",
    "bool": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "variant": "variant",
}
_DDL_TOKEN: Final = re.compile(
    r"(?:\s|--[^\n]*)*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\w+|[<>(),:])", re.DOTALL
)
_BLANK: Final = re.compile(r"(?:\s|--[^\n]*)*")


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without inner types: `bigint`, `decimal(10,2)`, ..."""

    name: str


@dataclass(frozen=True, slots=True)
class ArrayOf:
    item: "Type"


@dataclass(frozen=True, slots=True)
class MapOf:
    value: "Type"
    key: "Type" = Primitive("string")


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: "Type"
    required: bool = False


@dataclass(frozen=True, slots=True)
class StructOf:
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


Type = Primitive | ArrayOf | MapOf | StructOf


def to_ddl(struct: StructOf) -> str:
    """Returns DDL for `from_json` and `DataFrame.schema`. It does not include `required`."""
    return ", ".join(f"{quoted(each.name)} {type_text(each.type)}" for each in struct.columns)


def to_ddl_with_rules(struct: StructOf) -> str:
    """Returns the complete DDL, for pinning. `parse_ddl` reads it back without loss."""
    return ", ".join(
        f"{quoted(each.name)} {type_text(each.type, rules=True)}"
        + (" NOT NULL" if each.required else "")
        for each in struct.columns
    )


def type_text(kind: Type, *, rules: bool = False) -> str:
    """Returns the type in SQL. With `rules`, NOT NULL is kept inside structs."""
    match kind:
        case Primitive(name):
            return name
        case ArrayOf(item):
            return f"array<{type_text(item, rules=rules)}>"
        case MapOf(value, key):
            return f"map<{type_text(key, rules=rules)},{type_text(value, rules=rules)}>"
        case StructOf(columns):
            inner = ",".join(
                f"{quoted(each.name)}:{type_text(each.type, rules=rules)}"
                + (" NOT NULL" if rules and each.required else "")
                for each in columns
            )
            return f"struct<{inner}>"


def quoted(name: str) -> str:
    """Returns the name in quotes, for SQL."""
    return "`" + name.replace("`", "``") + "`"


def check_names(struct: StructOf) -> None:
    """Raises `FormatError` for columns with reserved names."""
    for each in struct.columns:
        if each.name.lower() in TAKEN:
            raise FormatError(
                f"a column cannot be named {each.name}: Headrace's own columns have the names "
                f"{', '.join(sorted(TAKEN))}. Leave it out of the schema; SQL can still take it "
                "from _record.value"
            )


def required_paths(struct: StructOf, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the paths of required columns, including those inside required structs."""
    for each in struct.columns:
        if not each.required:
            continue
        yield (*prefix, each.name)
        if isinstance(each.type, StructOf):
            yield from required_paths(each.type, (*prefix, each.name))


def leaf_types(kind: Type) -> Iterator[Primitive]:
    """Yields the types of all values that are not lists, maps or structs."""
    match kind:
        case Primitive():
            yield kind
        case ArrayOf(item):
            yield from leaf_types(item)
        case MapOf(value, key):
            yield from leaf_types(key)
            yield from leaf_types(value)
        case StructOf(columns):
            for each in columns:
                yield from leaf_types(each.type)


def read_schema(given: str) -> StructOf:
    """Reads a file (`.json` = JSON Schema, others = DDL) or DDL text. Raises `FormatError`."""
    path = Path(given)
    if " " in given.strip() or "<" in given or not path.suffix:
        return parse_ddl(given)
    text = read_text(path)
    if path.suffix == ".json":
        return parse_json_schema(text, str(path))
    return parse_ddl(text)


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FormatError(f"the schema {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FormatError(f"the schema {path} is not UTF-8 text") from None


# ---- DDL


def parse_ddl(text: str) -> StructOf:
    """Parses DDL such as `id BIGINT NOT NULL, tags ARRAY<STRING>`. Raises `FormatError`."""
    columns = _Ddl(text.strip().rstrip(";").rstrip()).columns(end=None)
    if not columns:
        raise FormatError("the schema names no column")
    return StructOf(columns)


class _Ddl:
    """A recursive descent parser for Spark's DDL."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        position = 0
        while position < len(text):
            match = _DDL_TOKEN.match(text, position)
            if match is None and _BLANK.fullmatch(text, position):
                break
            if match is None:
                self._fail(f"{text[position : position + 10]!r} is unexpected")
            self._tokens.append(match[1])
            position = match.end()
        self._at = 0

    def _fail(self, reason: str) -> NoReturn:
        shown = self._text if len(self._text) < 80 else self._text[:77] + "..."
        raise FormatError(
            f"the schema {shown!r} is not a DDL schema (id BIGINT, name STRING): {reason}"
        )

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        found = self._next()
        if found.upper() != token:
            self._fail(f"{token!r} expected, {found or 'the end'!r} found")

    def columns(self, end: str | None) -> tuple[Column, ...]:
        found: list[Column] = []
        while self._peek() and self._peek() != end:
            found.append(self._column())
            if self._peek() == ",":
                self._next()
            elif self._peek() not in ("", end):
                self._fail(f"{self._peek()!r} is unexpected")
        names = [column.name.lower() for column in found]
        for i, name in enumerate(names):
            if name in names[:i]:
                self._fail(f"the column {name} is named twice")
        return tuple(found)

    def _column(self) -> Column:
        name = self._next()
        if name in ("<", ">", ",", ":", "(", ")"):
            self._fail(f"a name expected, {name!r} found")
        if self._peek() == ":":
            self._next()
        kind = self._type()
        required = False
        while self._peek().upper() in ("NOT", "COMMENT"):
            if self._next().upper() == "NOT":
                self._expect("NULL")
                required = True
            else:
                self._next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        return Column(name, kind, required)

    def _type(self) -> Type:
        name = self._next().lower()
        if name == "array":
            self._expect("<")
            item = self._type()
            self._expect(">")
            return ArrayOf(item)
        if name == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            value = self._type()
            self._expect(">")
            return MapOf(value, key)
        if name == "struct":
            self._expect("<")
            columns = self.columns(end=">")
            self._expect(">")
            return StructOf(columns)
        if name in ("decimal", "dec", "numeric"):
            return Primitive(f"decimal({self._precision()})")
        if name in ("varchar", "char"):
            self._precision()
            return Primitive("string")
        if name not in _PRIMITIVES:
            self._fail(f"there is no type {name or 'at the end'!r}")
        return Primitive(_PRIMITIVES[name])

    def _precision(self) -> str:
        if self._peek() != "(":
            return "10,0"
        self._next()
        numbers = [self._next()]
        if self._peek() == ",":
            self._next()
            numbers.append(self._next())
        self._expect(")")
        if not all(number.isdecimal() for number in numbers) or not 1 <= int(numbers[0]) <= 38:
            self._fail("decimal(precision, scale) has a precision from 1 to 38")
        return ",".join([*numbers, "0"][:2])


# ---- JSON Schema

_FORMATS: Final = {"date-time": "timestamp", "date": "date"}


def parse_json_schema(text: str, name: str = "schema") -> StructOf:
    """Parses the part of JSON Schema that describes columns.

    Raises `FormatError` with the position of the error.
    """
    try:
        root = json.loads(text)
    except ValueError as error:
        raise FormatError(f"the schema {name} is not JSON: {error}") from None
    return _JsonSchema(root, name).struct(root, "")


class _JsonSchema:
    def __init__(self, root: object, name: str) -> None:
        self._root = root
        self._name = name

    def _fail(self, at: str, reason: str) -> NoReturn:
        raise FormatError(f"the schema {self._name}, {at or 'at its top'}: {reason}")

    def struct(self, node: object, at: str, depth: int = 0) -> StructOf:
        found = self._resolved(node, at, depth)
        properties = found.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            self._fail(at, 'must be {"type": "object", "properties": {...}}')
        required = found.get("required", [])
        if not isinstance(required, list):
            self._fail(at, "required must be a list of names")
        for each in required:
            if each not in properties:
                self._fail(at, f"{each!r} is required but no property")
        columns = []
        for key, each in properties.items():
            place = f"{at}.{key}".lstrip(".")
            kind, nullable = self._type(each, place, depth + 1)
            columns.append(Column(key, kind, key in required and not nullable))
        return StructOf(tuple(columns))

    def _resolved(self, node: object, at: str, depth: int) -> Mapping[str, object]:
        if depth > 50:
            self._fail(at, "is too deep, or holds itself")
        if not isinstance(node, Mapping):
            self._fail(at, "must be an object")
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        if not reference.startswith("#/"):
            self._fail(at, f"$ref {reference!r} is outside the file")
        target: object = self._root
        for step in reference[2:].split("/"):
            if not isinstance(target, Mapping) or step not in target:
                self._fail(at, f"$ref {reference!r} leads nowhere")
            target = target[step]
        return self._resolved(target, at, depth + 1)

    def _type(self, node: object, at: str, depth: int) -> tuple[Type, bool]:
        """Returns the type, and whether null is allowed."""
        found = self._resolved(node, at, depth)
        choices = found.get("anyOf") or found.get("oneOf")
        if isinstance(choices, list):
            others = [each for each in choices if each != {"type": "null"}]
            if len(others) != 1:
                self._fail(at, "anyOf/oneOf is possible with one type and null only")
            kind, nullable = self._type(others[0], at, depth + 1)
            return kind, nullable or len(others) < len(choices)
        names = found.get("type")
        listed = names if isinstance(names, list) else [names]
        wanted = [each for each in listed if each != "null"]
        if len(wanted) == 2 and set(wanted) == {"integer", "number"}:
            wanted = ["number"]
        if len(wanted) != 1 or not isinstance(wanted[0], str):
            hint = "string" if "enum" in found else "one of string, integer, number, ..."
            self._fail(at, f'needs one "type" ({hint})')
        return self._named(wanted[0], found, at, depth), len(wanted) < len(listed)

    def _named(self, name: str, found: Mapping[str, object], at: str, depth: int) -> Type:
        match name:
            case "string":
                if found.get("contentEncoding") == "base64":
                    return Primitive("binary")
                return Primitive(_FORMATS.get(str(found.get("format", "")), "string"))
            case "integer":
                return Primitive("int" if found.get("format") == "int32" else "bigint")
            case "number":
                return Primitive("float" if found.get("format") == "float" else "double")
            case "boolean":
                return Primitive("boolean")
            case "array":
                return ArrayOf(self._type(found.get("items"), f"{at}[]", depth + 1)[0])
            case "object":
                if "properties" in found:
                    return self.struct(found, at, depth + 1)
                values = found.get("additionalProperties")
                if isinstance(values, Mapping):
                    return MapOf(self._type(values, f"{at}.*", depth + 1)[0])
                return self._fail(at, "an object needs properties or additionalProperties")
            case _:
                return self._fail(at, f"there is no type {name!r}")
