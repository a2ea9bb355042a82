"""Prepares a format for a run: reads, fetches or infers its schema, and pins it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from headrace.pipeline.formats import pinned_schemas
from headrace.pipeline.formats.errors import FormatError
from headrace.pipeline.formats.schema import (
    Column,
    Primitive,
    StructOf,
    check_names,
    parse_ddl,
    read_schema,
    to_ddl_with_rules,
)
from headrace.pipeline.formats.schema_inference import infer_schema
from headrace.pipeline.formats.schema_mismatch import Explanation
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.formats import Avro, Csv, Format, Json, Protobuf, Raw
from headrace.pipeline.spec.sources import TopicSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Side = Literal["value", "key"]
Sample = Callable[[], "DataFrame"]
"""Returns sample records (binary `key` and `value`). Used only if a schema is inferred."""
MAX_SAMPLE_BYTES: Final = 100_000
"""Larger records are left out of the sample, because the driver collects it."""


class PreparedFormat(NamedTuple):
    """The prepared format of the key or the value."""

    format: Format
    columns: StructOf
    reader: str
    """The schema of Avro or Protobuf for the tasks. Empty for other formats."""

    @property
    def json_columns(self) -> StructOf | None:
        return self.columns if isinstance(self.format, Json) else None

    @property
    def is_inferred(self) -> bool:
        return isinstance(self.format, Json) and self.format.schema_ is None

    @property
    def has_own_times(self) -> bool:
        """Whether the spec defines the format of times."""
        given = self.format
        return isinstance(given, Json) and bool(given.timestamp_format or given.date_format)


class Schemas(NamedTuple):
    """The schemas of a flow. `version` is stored with every batch and dead letter."""

    value: PreparedFormat
    key: PreparedFormat | None
    version: int

    def explanation(self) -> Explanation:
        """Returns the object that explains which fields of a bad record do not match the schema."""
        value = self.value.json_columns
        key = None if self.key is None else self.key.json_columns
        sides = (self.value, self.key)
        own = any(each is not None and each.has_own_times for each in sides)
        return Explanation(value, key, judges_times=not own)


def prepare(flow: Flow, sample: Sample | None = None) -> Schemas:
    """Prepares the formats and pins their schemas in the checkpoint. Raises `FormatError`.

    It is called once per run, on the driver.
    """
    source = flow.source
    if not isinstance(source, TopicSource):
        raise FormatError("only records of topics have a format")
    value, version = _side(flow, "value", source.value, sample)
    key = None if source.key is None else _side(flow, "key", source.key, sample)[0]
    for each in (value, key):
        if each is not None:
            check_names(each.columns)
    return Schemas(value, key, version)


def _side(
    flow: Flow, side: Side, given: Format, sample: Sample | None
) -> tuple[PreparedFormat, int]:
    match given:
        case Raw():
            column = Column(given.column or side, Primitive(given.type))
            return PreparedFormat(given, StructOf((column,)), ""), 1
        case Json(schema_=None):
            return _inferred(flow, side, given, sample)
        case Json() | Csv():
            columns = read_schema(given.schema_ or "")
            pinned = pinned_schemas.pin(
                flow.checkpoint, side, given.format, to_ddl_with_rules(columns)
            )
            return PreparedFormat(given, columns, ""), pinned.version
        case Avro() | Protobuf():
            text, columns = reader_schema(given, side, flow)
            pinned = pinned_schemas.pin(flow.checkpoint, side, given.format, text)
            return PreparedFormat(given, columns, text), pinned.version


def reader_schema(given: Avro | Protobuf, side: Side, flow: Flow) -> tuple[str, StructOf]:
    """Returns the schema of the columns as text for the tasks, and the columns."""
    subject = default_subject(flow, side)
    if isinstance(given, Avro):
        from headrace.pipeline.formats import avro

        return avro.reader_schema(given, subject)
    from headrace.pipeline.formats import protobuf

    return protobuf.reader_schema(given, subject)


def default_subject(flow: Flow, side: Side) -> str:
    """Returns the subject as Confluent's clients name it.

    Returns "" if there are several topics.
    """
    source = flow.source
    topics = source.topics if isinstance(source, TopicSource) else ()
    return f"{topics[0]}-{side}" if len(topics) == 1 else ""


def _inferred(
    flow: Flow, side: Side, given: Json, sample: Sample | None
) -> tuple[PreparedFormat, int]:
    pinned = pinned_schemas.latest(flow.checkpoint, side)
    if pinned is None:
        found = None if sample is None else infer(sample(), side, given.infer_from)
        if found is None:
            raise FormatError(
                f"the schema of the {side} cannot be inferred: there is no record with a JSON "
                "object yet; wait for one, or give a schema"
            )
        check_names(found)
        pinned = pinned_schemas.pin(flow.checkpoint, side, given.format, to_ddl_with_rules(found))
    return PreparedFormat(given, parse_ddl(pinned.text), ""), pinned.version


def grow(flow: Flow, schemas: Schemas, columns: StructOf) -> Schemas:
    """Returns the schemas with new columns of the value, pinned as a new version."""
    given = schemas.value.format
    pinned = pinned_schemas.pin(flow.checkpoint, "value", given.format, to_ddl_with_rules(columns))
    return Schemas(schemas.value._replace(columns=columns), schemas.key, pinned.version)


def infer(records: "DataFrame", side: Side, count: int) -> StructOf | None:
    """Infers the columns from at most `count` records. Returns None if none is a JSON object."""
    chosen = records.where(f"octet_length({side}) <= {MAX_SAMPLE_BYTES}").select(side).limit(count)
    return infer_schema(None if row[0] is None else bytes(row[0]) for row in chosen.collect())
