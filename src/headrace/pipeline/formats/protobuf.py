"""Protobuf: converts messages to columns, and bytes to rows."""

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import Default, DescriptorPool
from google.protobuf.message import DecodeError, Message

from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.decoder import Undecodable
from headrace.pipeline.formats.errors import FormatError, RegistryError
from headrace.pipeline.formats.proto_text import parse_proto
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
    Registered,
    client_of,
    registered,
    split_prefix,
)
from headrace.pipeline.spec.formats import Protobuf

if TYPE_CHECKING:
    from collections.abc import Callable

_MAIN: Final = "headrace_main.proto"
_TYPES: Final = {
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "bigint",
    FieldDescriptor.CPPTYPE_UINT32: "bigint",
    FieldDescriptor.CPPTYPE_UINT64: "decimal(20,0)",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_ENUM: "string",
}
_WRAPPERS: Final = {
    f"google.protobuf.{name}Value": kind
    for name, kind in (
        ("Double", "double"),
        ("Float", "float"),
        ("Int64", "bigint"),
        ("UInt64", "decimal(20,0)"),
        ("Int32", "int"),
        ("UInt32", "bigint"),
        ("Bool", "boolean"),
        ("String", "string"),
        ("Bytes", "binary"),
    )
}
_AS_JSON: Final = frozenset(
    f"google.protobuf.{name}"
    for name in ("StructOf", "Value", "ListValue", "Any", "Duration", "FieldMask")
)
_TIMESTAMP: Final = "google.protobuf.Timestamp"


def reader_schema(given: Protobuf, subject: str) -> tuple[str, StructOf]:
    """Returns the descriptors and the message as text, and the columns. Raises `FormatError`."""
    if given.schema_ is not None:
        files = _from_file(Path(given.schema_))
    else:
        assert given.registry is not None
        files = _files(registered(given.registry, subject))
    pool = _pool(files)
    message = given.message or _only_message(files)
    try:
        descriptor = pool.FindMessageTypeByName(message)
    except KeyError:
        known = ", ".join(sorted(_messages(files)))
        raise FormatError(f"the schema has no message {message}; it has {known}") from None
    packed = FileDescriptorSet(file=files).SerializeToString(deterministic=True)
    text = json.dumps({"files": base64.b64encode(packed).decode(), "message": message})
    return text, columns_of(descriptor)


def _from_file(path: Path) -> list[FileDescriptorProto]:
    """Reads a `.proto` file and its imports beside it, or a descriptor set of `protoc`."""
    if path.suffix == ".proto":
        found: dict[str, FileDescriptorProto] = {}
        _with_imports(path, path.name, found)
        return list(found.values())
    try:
        return list(FileDescriptorSet.FromString(path.read_bytes()).file)
    except OSError as error:
        raise FormatError(f"the schema {path} cannot be read: {error.strerror}") from None
    except DecodeError:
        raise FormatError(
            f"{path} is neither a .proto file nor a descriptor set "
            "(protoc --include_imports --descriptor_set_out)"
        ) from None


def _with_imports(path: Path, name: str, found: dict[str, FileDescriptorProto]) -> None:
    parsed = parse_proto(read_text(path), name)
    for each in parsed.dependency:
        if each not in found and not each.startswith("google/protobuf/"):
            _with_imports(path.parent / each, each, found)
    found[name] = parsed


def _files(registered: Registered) -> list[FileDescriptorProto]:
    if registered.kind != "PROTOBUF":
        raise FormatError(f"the registry's schema is {registered.kind}, not PROTOBUF")
    files = [
        parse_proto(text, name)
        for name, text in registered.references.items()
        if not name.startswith("google/protobuf/")
    ]
    return [*files, parse_proto(registered.text, _MAIN)]


def _pool(files: Iterable[FileDescriptorProto]) -> DescriptorPool:
    pool = DescriptorPool()
    try:
        for file in files:
            for name in file.dependency:
                if name.startswith("google/protobuf/"):
                    _add_known(pool, name)
            pool.Add(file)
        for file in files:
            pool.FindFileByName(file.name)
    except (TypeError, KeyError) as error:
        raise FormatError(f"the Protobuf schema does not fit together: {error}") from None
    return pool


def _add_known(pool: DescriptorPool, name: str) -> None:
    """Adds one of Google's well-known types, which are part of the package."""
    import importlib

    try:
        pool.FindFileByName(name)
    except KeyError:
        module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
        importlib.import_module(module)
        found = FileDescriptorProto()
        Default().FindFileByName(name).CopyToProto(found)
        for each in found.dependency:
            _add_known(pool, each)
        pool.Add(found)


def _messages(files: Iterable[FileDescriptorProto]) -> list[str]:
    return [
        f"{file.package}.{each.name}".lstrip(".") for file in files for each in file.message_type
    ]


def _only_message(files: list[FileDescriptorProto]) -> str:
    last = _messages(files[-1:])
    if not last:
        raise FormatError("the Protobuf schema has no message")
    if len(last) > 1:
        raise FormatError(f"set message: to one of {', '.join(last)}")
    return last[0]


def columns_of(message: Descriptor, above: tuple[str, ...] = ()) -> StructOf:
    if message.full_name in above:
        raise FormatError(f"{message.full_name} holds itself, which no table can")
    if not message.fields:
        raise FormatError(f"{message.full_name} has no field, which no table can hold")
    inside = (*above, message.full_name)
    return StructOf(tuple(Column(each.name, _type(each, inside)) for each in message.fields))


def _is_map(field: FieldDescriptor) -> bool:
    inner = field.message_type
    return inner is not None and bool(inner.GetOptions().map_entry)


def _type(field: FieldDescriptor, above: tuple[str, ...]) -> Type:
    if _is_map(field):
        key, value = (
            field.message_type.fields_by_name["key"],
            field.message_type.fields_by_name["value"],
        )
        return MapOf(_single(value, above), _single(key, above))
    single = _single(field, above)
    return ArrayOf(single) if field.is_repeated else single


def _single(field: FieldDescriptor, above: tuple[str, ...]) -> Type:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return Primitive("binary" if field.type == FieldDescriptor.TYPE_BYTES else "string")
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return Primitive(_TYPES[field.cpp_type])
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return Primitive("timestamp")
    if name in _AS_JSON:
        return Primitive("string")
    if name in _WRAPPERS:
        return Primitive(_WRAPPERS[name])
    return columns_of(field.message_type, above)


class ProtobufDecoder(NamedTuple):
    """Decodes Protobuf. It is created on the driver and used in tasks."""

    reader: str
    access: Access | None

    def decode(self, data: bytes) -> dict[str, object]:
        """Raises `Undecodable` for a bad record. Raises `RegistryError` if the registry fails."""
        make, wanted = _reader_of(self.reader)
        try:
            message = make()
            message.ParseFromString(self._body(data, wanted))
            return _row(message)
        except RegistryError:
            raise
        except NoSuchSchema as error:
            raise Undecodable(BadRecord.UNKNOWN_SCHEMA_ID, str(error)) from None
        except (DecodeError, NoPrefix) as error:
            message_text = f"is no {wanted}: {error}"
            raise Undecodable(BadRecord.NOT_PROTOBUF, message_text) from None
        except (ValueError, OverflowError, TypeError) as error:
            raise Undecodable(BadRecord.OUT_OF_RANGE, f"holds a bad value: {error}") from None

    def _body(self, data: bytes, wanted: str) -> bytes:
        if self.access is None:
            return data
        schema_id, rest = split_prefix(data)
        indexes, body = split_indexes(rest)
        names = _names_of(self.access, schema_id)
        name = names.get(indexes)
        if name != wanted:
            found = name or f"message number {list(indexes)} of schema {schema_id}"
            raise Undecodable(BadRecord.SCHEMA_MISMATCH, f"is {found}, not {wanted}")
        return body


def parse_registered(access: Access, data: bytes) -> Message:
    """Returns the message as its own schema in the registry describes it."""
    schema_id, rest = split_prefix(data)
    indexes, body = split_indexes(rest)
    name = _names_of(access, schema_id).get(indexes)
    if name is None:
        raise NoPrefix(f"names no message of schema {schema_id}")
    if (access, schema_id) not in _pools:
        _pools[access, schema_id] = _pool(_files(client_of(access).by_id(schema_id)))
    descriptor = _pools[access, schema_id].FindMessageTypeByName(name)
    message = message_factory.GetMessageClass(descriptor)()
    message.ParseFromString(body)
    return message


def split_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """Returns the path of the message in its schema, and the rest. Raises `NoPrefix`."""
    count, position = _zigzag(data, 0)
    if count == 0:
        return (0,), data[position:]
    if not 0 < count <= 100:
        raise NoPrefix(f"names {count} message indexes")
    indexes = []
    for _ in range(count):
        index, position = _zigzag(data, position)
        indexes.append(index)
    return tuple(indexes), data[position:]


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 35:
            raise NoPrefix("the message indexes of its prefix are cut off")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position


_readers: "dict[str, tuple[Callable[[], Message], str]]" = {}
_pools: dict[tuple[Access, int], DescriptorPool] = {}
_names: dict[tuple[Access, int], Mapping[tuple[int, ...], str]] = {}


def _reader_of(text: str) -> "tuple[Callable[[], Message], str]":
    if text not in _readers:
        found = json.loads(text)
        files = FileDescriptorSet.FromString(base64.b64decode(found["files"])).file
        descriptor = _pool(files).FindMessageTypeByName(found["message"])
        _readers[text] = (message_factory.GetMessageClass(descriptor), found["message"])
    return _readers[text]


def _names_of(access: Access, schema_id: int) -> Mapping[tuple[int, ...], str]:
    """Returns the names of the messages in a registered schema, by their indexes."""
    if (access, schema_id) not in _names:
        file = _files(client_of(access).by_id(schema_id))[-1]
        names: dict[tuple[int, ...], str] = {}
        open_: list[tuple[tuple[int, ...], str, DescriptorProto]] = [
            ((i,), file.package, each) for i, each in enumerate(file.message_type)
        ]
        while open_:
            path, prefix, message = open_.pop()
            names[path] = f"{prefix}.{message.name}".lstrip(".")
            open_ += [((*path, i), names[path], each) for i, each in enumerate(message.nested_type)]
        _names[access, schema_id] = names
    return _names[access, schema_id]


def _row(message: Message) -> dict[str, object]:
    """Returns the row. An unset field is null if it has presence, else the type's default."""
    row: dict[str, object] = {}
    for field in message.DESCRIPTOR.fields:
        if field.is_repeated:
            row[field.name] = _many(field, getattr(message, field.name))
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _value(field, getattr(message, field.name))
    return row


def _many(field: FieldDescriptor, values: Iterable[object] | Mapping[object, object]) -> object:
    if _is_map(field):
        assert isinstance(values, Mapping)
        value = field.message_type.fields_by_name["value"]
        return [(key, _value(value, values[key])) for key in values]
    return [_value(field, each) for each in values]


def _value(field: FieldDescriptor, value: object) -> object:
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return value
    assert isinstance(value, Message)
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return value.ToDatetime().replace(tzinfo=UTC)
    if name in _AS_JSON:
        return json.dumps(json_format.MessageToDict(value))
    if name in _WRAPPERS:
        return value.value
    return _row(value)
