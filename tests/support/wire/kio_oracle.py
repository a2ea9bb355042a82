"""kio as a reference: converts our messages to kio's, and returns kio's bytes for them.

kio must only read bytes that Headrace or kio wrote. Its native reader trusts the counts in the
input, and wrong ones crash the process.
"""

import dataclasses
import datetime as dt
import io
import re
import uuid
from functools import cache
from typing import Any

from kio.index import UnknownEntity, load_entity_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from headrace.protocol.layout import Field, fields_of
from headrace.protocol.struct import Struct
from support.wire.protocol_values import Maker

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LAST_DATETIME_S = 253_402_300_799
"""The last second of the year 9999, the end of Python's datetime range."""
LAST_TIMEDELTA_MS = 2**48
FIRST_OWN_TAG = 10_000
"""Tagged fields from here on are Headrace's own: kio does not have them."""
ERROR_CODES = [int(code) for code in ErrorCode]


@cache
def twin_class(cls: type[Struct], version: int) -> Any:
    """kio's class for one of our messages; None if kio does not support the version."""
    name = re.sub(r"(Request|Response)$", "", cls.__name__)
    kind = EntityType.data
    if name != cls.__name__:
        kind = EntityType[cls.__name__.removeprefix(name).lower()]
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    try:
        module = load_entity_module(snake, version, kind)
    except UnknownEntity:
        return None
    return getattr(module, cls.__name__)


def unwrapped(annotation: Any) -> Any:
    """The class inside `X | None`, `tuple[X, ...]` or both."""
    while (arguments := getattr(annotation, "__args__", None)) is not None:
        annotation = next(each for each in arguments if each not in (type(None), ...))
    return annotation


def shared_fields(cls: type[Struct], version: int) -> list[Field]:
    """The fields that Kafka has, too."""
    return [
        field
        for field in fields_of(cls)
        if field.is_in(version) and (field.options.tag or 0) < FIRST_OWN_TAG
    ]


class TwinMaker(Maker):
    """Generates messages whose values are also valid for kio's richer types."""

    def fields(self, cls: type[Struct]) -> list[Field]:
        return shared_fields(cls, self.version)

    def twin_fields(self, twin: Any, present: list[Field]) -> list[Any]:
        fields = list(dataclasses.fields(twin))
        ours = [_stem(field.name) for field in present]
        assert ours == [_stem(field.name) for field in fields]
        return fields

    def twin_struct(self, twin_field: Any) -> Any:
        return unwrapped(twin_field.type)

    def fixed(self, code: str, twin_field: Any) -> Any:
        match twin_field.metadata["kafka_type"]:
            case "error_code":
                return self.rng.choice(ERROR_CODES)
            case "datetime_i64":
                # kio rounds times through floats. Whole seconds stay exact.
                moment_ms = self.rng.randrange(LAST_DATETIME_S) * 1000
                if type(None) in getattr(twin_field.type, "__args__", ()):
                    return self.rng.choice((-1, moment_ms))
                return moment_ms
            case "timedelta_i64":
                return self.rng.randrange(LAST_TIMEDELTA_MS)
        return super().fixed(code, twin_field)


def _stem(name: str) -> str:
    # kio uses types for times instead of units in the names.
    return re.sub(r"_ms$", "", name)


def converted(message: Struct, twin: Any, version: int) -> Any:
    """Our message, converted to kio's class."""
    present = shared_fields(type(message), version)
    values = {}
    for field, twin_field in zip(present, dataclasses.fields(twin), strict=True):
        value = getattr(message, field.name)
        if field.array and value is not None:
            value = tuple(_converted_value(each, twin_field, version) for each in value)
        elif value is not None:
            value = _converted_value(value, twin_field, version)
        values[twin_field.name] = value
    return twin(**values)


def _converted_value(value: Any, twin_field: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return converted(value, unwrapped(twin_field.type), version)
    match twin_field.metadata["kafka_type"]:
        case "error_code":
            return ErrorCode(value)
        case "uuid":
            return None if value == bytes(16) else uuid.UUID(bytes=value)
        case "timedelta_i32" | "timedelta_i64":
            return dt.timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else EPOCH + dt.timedelta(milliseconds=value)
    return value


def twin_bytes(entity: Any) -> bytes:
    """The bytes that kio writes."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def twin_read(twin: Any, data: bytes) -> Any:
    """Lets kio read bytes that Headrace or kio wrote."""
    entity, size = entity_reader(twin)(data, 0)
    assert size == len(data)
    return entity
