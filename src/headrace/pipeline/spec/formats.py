"""The formats of keys and values: the `key:` and `value:` sections."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from headrace.pipeline.spec.spec_values import (
    Location,
    SchemaText,
    Settings,
    TemplatePart,
    format_tagger,
)


class Registry(TemplatePart):
    """A Confluent-compatible schema registry."""

    url: str = Field(pattern=r"^https?://")
    """The registry's address."""
    subject: str | None = None
    """The subject whose schema the columns follow; `<topic>-value` or `<topic>-key` by default."""
    version: int | Literal["latest"] = "latest"
    """The version of the subject whose schema the columns follow."""
    auth: Settings = Settings()
    """`username` and `password`, or `token`."""


class Json(TemplatePart):
    """JSON: each record is one object."""

    format: Literal["json"] = "json"
    """Selects this format."""
    schema_: SchemaText | None = Field(default=None, alias="schema")
    """The columns: Spark DDL, or a file with DDL or a JSON Schema. Without it, the schema is
    inferred from the first records once and pinned in the checkpoint directory."""
    duplicate_keys: Literal["last", "error"] = "last"
    """What a field that occurs twice means: the last value counts, or the record is bad. `error`
    reads every record a second time and costs a third of the speed."""
    infer_from: int = Field(default=1000, ge=1, le=1_000_000)
    """How many records the schema is inferred from."""
    timestamp_format: str | None = None
    """Spark's pattern of timestamps; ISO 8601 by default."""
    date_format: str | None = None
    """Spark's pattern of dates; ISO 8601 by default."""


class Avro(TemplatePart):
    """Avro, with a schema file or with the registry's 5-byte prefix."""

    format: Literal["avro"] = "avro"
    """Selects this format."""
    schema_: Location | None = Field(default=None, alias="schema")
    """An `.avsc` file; the values then have no prefix."""
    registry: Registry | None = None
    """The schema registry, or just its URL; the values then have its prefix."""

    @field_validator("registry", mode="before")
    @classmethod
    def _from_url(cls, value: object) -> object:
        return {"url": value} if isinstance(value, str) else value


class Protobuf(TemplatePart):
    """Protobuf, with a schema file or with the registry's 5-byte prefix."""

    format: Literal["protobuf"] = "protobuf"
    """Selects this format."""
    schema_: Location | None = Field(default=None, alias="schema")
    """A `.proto` or descriptor file; the values then have no prefix."""
    message: str | None = None
    """The message's full name. It may be left out if the file defines only one message."""
    registry: Registry | None = None
    """The schema registry, or just its URL; the values then have its prefix."""

    @field_validator("registry", mode="before")
    @classmethod
    def _from_url(cls, value: object) -> object:
        return {"url": value} if isinstance(value, str) else value


class Csv(TemplatePart):
    """CSV: each record is one line."""

    format: Literal["csv"] = "csv"
    """Selects this format."""
    schema_: SchemaText | None = Field(default=None, alias="schema")
    """The columns: Spark DDL, or a file that contains it."""
    separator: str = Field(default=",", min_length=1, max_length=1)
    """The character between two values."""
    quote: str = Field(default='"', min_length=1, max_length=1)
    """The character around a quoted value; within quotes it is written twice."""
    null: str = ""
    """The text of a null."""
    timestamp_format: str | None = None
    """Spark's pattern of timestamps; ISO 8601 by default."""
    date_format: str | None = None
    """Spark's pattern of dates; ISO 8601 by default."""


class Raw(TemplatePart):
    """The bytes as they are, or as text, in one column."""

    format: Literal["raw"] = "raw"
    """Selects this format."""
    type: Literal["binary", "string"] = "binary"
    """The column's type."""
    column: str | None = None
    """The column's name: `value` or `key` by default."""


FORMATS = ("json", "avro", "protobuf", "csv", "raw")


Format = Annotated[
    Annotated[Json, Tag("<json>")]
    | Annotated[Avro, Tag("<avro>")]
    | Annotated[Protobuf, Tag("<protobuf>")]
    | Annotated[Csv, Tag("<csv>")]
    | Annotated[Raw, Tag("<raw>")],
    Discriminator(
        format_tagger(FORMATS),
        custom_error_type="format",
        custom_error_message="unknown format",
    ),
]
