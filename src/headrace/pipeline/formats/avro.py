"""Avro: converts schemas to columns, and bytes to rows."""

import io
import json
from collections.abc import Mapping
from datetime import time
from pathlib import Path
from typing import Final, NamedTuple

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.decoder import Undecodable
from headrace.pipeline.formats.errors import FormatError, RegistryError
from headrace.pipeline.formats.schema import (
    ArrayOf,
    Column,
    MapOf,
    Primitive,
    StructOf,
    Type,
    read_text,
)
from headrace.pipeline.formats.schema_registry import (
    Access,
    NoPrefix,
    NoSuchSchema,
    client_of,
    registered,
    split_prefix,
)
from headrace.pipeline.spec.formats import Avro

_PRIMITIVES: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "fixed": "binary",
}
_LOGICAL: Final = {
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "date": "date",
    "time-millis": "string",
    "time-micros": "string",
    "uuid": "string",
}


def reader_schema(given: Avro, subject: str) -> tuple[str, StructOf]:
    """Returns the schema of the columns as text, and the columns. Raises `FormatError`."""
    if given.schema_ is not None:
        text, references = read_text(Path(given.schema_)), {}
    else:
        assert given.registry is not None
        found = registered(given.registry, subject)
        text, references = found.text, dict(found.references)
    content = json.dumps({"schema": text, "references": references})
    return content, columns_of(_parsed(text, references))


def _parsed(text: str, references: Mapping[str, str]) -> object:
    """Returns the schema as fastavro parses it. Raises `FormatError`."""
    named: dict[str, object] = {}
    try:
        for reference in references.values():
            fastavro.parse_schema(json.loads(reference), named_schemas=named)  # type: ignore[arg-type]
        return fastavro.parse_schema(json.loads(text), named_schemas=named, expand=True)  # type: ignore[arg-type]
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"this is not an Avro schema: {error}") from None


def columns_of(schema: object) -> StructOf:
    """Returns the columns of a record schema.

    Raises `FormatError` for a type without a column type.
    """
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise FormatError("the Avro schema must be that of a record")
    kind = _type(schema, str(schema.get("name")), 0)
    assert isinstance(kind, StructOf)
    return kind


def _type(schema: object, at: str, depth: int) -> Type:
    if depth > 50:
        raise FormatError(f"the Avro schema is too deep or holds itself, at {at}")
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise FormatError(
                f"{at}: a union of several types has no column type; use one and null"
            )
        return _type(others[0], at, depth + 1)
    if isinstance(schema, str):
        if schema not in _PRIMITIVES:
            raise FormatError(f"{at}: {schema} holds itself, which no table can")
        return Primitive(_PRIMITIVES[schema])
    assert isinstance(schema, dict)
    logical, name = schema.get("logicalType"), schema["type"]
    if logical == "decimal":
        return Primitive(f"decimal({schema['precision']},{schema.get('scale', 0)})")
    if logical in _LOGICAL:
        return Primitive(_LOGICAL[logical])
    if name == "record":
        return StructOf(
            tuple(
                Column(each["name"], _type(each["type"], f"{at}.{each['name']}", depth + 1))
                for each in schema["fields"]
            )
        )
    if name == "array":
        return ArrayOf(_type(schema["items"], f"{at}[]", depth + 1))
    if name == "map":
        return MapOf(_type(schema["values"], f"{at}.*", depth + 1))
    return _type(name, at, depth + 1)


class AvroDecoder(NamedTuple):
    """Decodes Avro. It is created on the driver and used in tasks."""

    reader: str
    access: Access | None

    def decode(self, data: bytes) -> dict[str, object]:
        """Raises `Undecodable` for a bad record. Raises `RegistryError` if the registry fails."""
        try:
            writer, body = self._writer(data)
            source = io.BytesIO(body)
            row = fastavro.schemaless_reader(source, writer, _reader_of(self.reader))  # type: ignore[arg-type]
        except RegistryError:
            raise
        except (NoPrefix, EOFError, UnicodeDecodeError, IndexError) as error:
            reason = "it ends too early" if isinstance(error, EOFError) else str(error)
            raise Undecodable(BadRecord.NOT_AVRO, f"is not of its Avro schema: {reason}") from None
        except NoSuchSchema as error:
            raise Undecodable(BadRecord.UNKNOWN_SCHEMA_ID, str(error)) from None
        except fastavro.read.SchemaResolutionError as error:
            message = f"was written with another schema: {' '.join(str(error).split())[:200]}"
            raise Undecodable(BadRecord.SCHEMA_MISMATCH, message) from None
        except (OverflowError, ArithmeticError) as error:
            raise Undecodable(BadRecord.OUT_OF_RANGE, f"holds a value that is {error}") from None
        except (ValueError, KeyError, TypeError, MemoryError) as error:
            message = f"is not of its Avro schema: {error}"
            raise Undecodable(BadRecord.NOT_AVRO, message) from None
        left = len(body) - source.tell()
        if left:
            raise Undecodable(BadRecord.NOT_AVRO, f"has {left} bytes after its end")
        assert isinstance(row, dict)
        return {name: _plain(value) for name, value in row.items()}

    def _writer(self, data: bytes) -> tuple[object, bytes]:
        if self.access is None:
            return _reader_of(self.reader), data
        return _registered_writer(self.access, data)


def read_registered(access: Access, data: bytes) -> object:
    """Returns the value as its own schema in the registry describes it."""
    writer, body = _registered_writer(access, data)
    return fastavro.schemaless_reader(io.BytesIO(body), writer, None)  # type: ignore[arg-type]


def _registered_writer(access: Access, data: bytes) -> tuple[object, bytes]:
    schema_id, body = split_prefix(data)
    known = _writers.get((access, schema_id))
    if known is None:
        found = client_of(access).by_id(schema_id)
        known = _writers[access, schema_id] = _parsed(found.text, found.references)
    return known, body


_writers: dict[tuple[Access, int], object] = {}
_readers: dict[str, object] = {}


def _reader_of(content: str) -> object:
    if content not in _readers:
        found = json.loads(content)
        _readers[content] = _parsed(found["schema"], found["references"])
    return _readers[content]


def _plain(value: object) -> object:
    """Converts a value to a type that Arrow accepts. Times of day and UUIDs become strings."""
    match value:
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case time():
            return value.isoformat()
        case None | str() | bytes() | int() | float():
            return value
        case _ if type(value).__name__ == "UUID":
            return str(value)
        case _:
            return value
