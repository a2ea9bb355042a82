"""Decodes formats in Python: adds a column to Arrow batches."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from headrace.pipeline.formats.avro import AvroDecoder
from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.decoder import Decoder, Undecodable
from headrace.pipeline.formats.prepared_format import PreparedFormat, Side
from headrace.pipeline.formats.protobuf import ProtobufDecoder
from headrace.pipeline.formats.schema import ArrayOf, MapOf, Primitive, StructOf, Type, type_text
from headrace.pipeline.formats.schema_registry import access_of
from headrace.pipeline.source.row_schema import schema as source_schema
from headrace.pipeline.spec.formats import Avro, Protobuf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


class Decoding(NamedTuple):
    """One side of the records: the column to read, the column to add, and the format."""

    side: Side
    prepared: PreparedFormat
    limit_bytes: int
    column: str


def decode(
    records: "DataFrame", wanted: Iterable[tuple[Side, PreparedFormat, int, str]]
) -> "DataFrame":
    """Returns the records with a struct<columns, error, message> for each requested side."""
    sides = [Decoding(*each) for each in wanted]
    with_headers, with_damage = (name in records.columns for name in ("headers", "damage"))
    made = "".join(
        f", {each.column} struct<columns: {type_text(each.prepared.columns)}, "
        "error: string, message: string>"
        for each in sides
    )
    task = DecodeTask(
        tuple(
            SideTask(
                each.side,
                each.column,
                _decoder(each.prepared),
                arrow_type(each.prepared.columns),
                each.limit_bytes,
            )
            for each in sides
        )
    )
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    names += ["headers"] * with_headers + ["damage"] * with_damage
    columns = source_schema(with_headers=with_headers, with_damage=with_damage)
    return records.select(*names).mapInArrow(task, columns + made)


def _decoder(prepared: PreparedFormat) -> Decoder:
    given = prepared.format
    assert isinstance(given, Avro | Protobuf)
    access = None if given.registry is None else access_of(given.registry)
    if isinstance(given, Avro):
        return AvroDecoder(prepared.reader, access)
    return ProtobufDecoder(prepared.reader, access)


def arrow_type(kind: Type) -> pa.DataType:
    match kind:
        case Primitive(name) if name.startswith("decimal("):
            precision, scale = name[len("decimal(") : -1].split(",")
            return pa.decimal128(int(precision), int(scale))
        case Primitive(name):
            return _ARROW[name]
        case ArrayOf(item):
            return pa.list_(arrow_type(item))
        case MapOf(value, key):
            return pa.map_(arrow_type(key), arrow_type(value))
        case StructOf(columns):
            return pa.struct([pa.field(each.name, arrow_type(each.type)) for each in columns])


@dataclass(frozen=True, slots=True)
class SideTask:
    side: Side
    column: str
    decoder: Decoder
    type: pa.DataType
    limit_bytes: int

    def decoded(self, data: pa.Array) -> pa.Array:
        """Returns an array as long as `data`, with nulls where there is nothing to decode."""
        rows, errors, messages = [], [], []
        for each in data:
            row, error, message = self._one(each.as_py())
            rows.append(row)
            errors.append(error)
            messages.append(message)
        try:
            columns = pa.array(rows, self.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            columns = self._one_by_one(rows, errors, messages)
        return pa.StructArray.from_arrays(
            [columns, pa.array(errors, pa.string()), pa.array(messages, pa.string())],
            names=["columns", "error", "message"],
        )

    def _one(self, data: bytes | None) -> tuple[dict[str, object] | None, str | None, str | None]:
        if data is None or len(data) > self.limit_bytes:
            return None, None, None
        try:
            return self.decoder.decode(data), None, None
        except Undecodable as bad:
            return None, str(bad.kind), bad.message

    def _one_by_one(
        self,
        rows: Sequence[dict[str, object] | None],
        errors: list[str | None],
        messages: list[str | None],
    ) -> pa.Array:
        """Converts each row separately, so that one invalid value does not fail the whole batch."""
        kept: list[dict[str, object] | None] = []
        for i, row in enumerate(rows):
            try:
                pa.array([row], self.type)
                kept.append(row)
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                kept.append(None)
                errors[i] = str(BadRecord.OUT_OF_RANGE)
                messages[i] = f"holds a value that its column cannot: {error}"
        return pa.array(kept, self.type)


@dataclass(frozen=True, slots=True)
class DecodeTask:
    sides: tuple[SideTask, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays, names = list(batch.columns), list(batch.schema.names)
            for each in self.sides:
                arrays.append(each.decoded(batch.column(names.index(each.side))))
                names.append(each.column)
            yield pa.RecordBatch.from_arrays(arrays, names=names)
