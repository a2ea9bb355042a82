"""How keys and values are written: the `key:` and `value:` sections."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from headrace.pipeline.spec.spec_values import Location, SchemaText, Settings, TemplatePart


class Registry(TemplatePart):
    """A Confluent-compatible schema registry."""

    url: str = Field(pattern=r"^https?://")
    subject: str | None = None
    """The subject whose schema the columns follow; `<topic>-value` or `<topic>-key` by default."""
    version: int | Literal["latest"] = "latest"
    auth: Settings = Settings()
    """`username` and `password`, or `token`."""


class Json(TemplatePart):
    """JSON objects, one a record."""

    format: Literal["json"] = "json"
    schema_: SchemaText | None = Field(default=None, alias="schema")
    """A file (JSON Schema, or Spark DDL), or DDL itself; none = inferred once and pinned."""
    duplicate_keys: Literal["last", "error"] = "last"
    """Whether the last of two equal keys counts, or the record is bad. To look costs a second
    reading of every record, a third of the speed."""
    infer_from: int = Field(default=1000, ge=1, le=1_000_000)
    """Records to look at where the schema is inferred."""
    timestamp_format: str | None = None
    date_format: str | None = None


class Avro(TemplatePart):
    """Avro: bare by a schema file, or with the registry's prefix."""

    format: Literal["avro"] = "avro"
    schema_: Location | None = Field(default=None, alias="schema")
    registry: Registry | None = None

    @field_validator("registry", mode="before")
    @classmethod
    def _from_url(cls, value: object) -> object:
        return {"url": value} if isinstance(value, str) else value


class Protobuf(TemplatePart):
    """Protobuf: bare by a descriptor or .proto file, or with the registry's prefix."""

    format: Literal["protobuf"] = "protobuf"
    schema_: Location | None = Field(default=None, alias="schema")
    message: str | None = None
    """The message's full name; may be left out where the file has only one."""
    registry: Registry | None = None

    @field_validator("registry", mode="before")
    @classmethod
    def _from_url(cls, value: object) -> object:
        return {"url": value} if isinstance(value, str) else value


class Csv(TemplatePart):
    """One line of separated values a record."""

    format: Literal["csv"] = "csv"
    schema_: SchemaText | None = Field(default=None, alias="schema")
    """DDL, or a file with it."""
    separator: str = Field(default=",", min_length=1, max_length=1)
    quote: str = Field(default='"', min_length=1, max_length=1)
    null: str = ""
    timestamp_format: str | None = None
    date_format: str | None = None


class Raw(TemplatePart):
    """The bytes as they are, or as text, in one column."""

    format: Literal["raw"] = "raw"
    type: Literal["binary", "string"] = "binary"
    column: str | None = None
    """The column's name: `value` or `key` by default."""


FORMATS = ("json", "avro", "protobuf", "csv", "raw")


def _format_of(value: object) -> str | None:
    name = value.get("format") if isinstance(value, dict) else getattr(value, "format", None)
    return f"<{name}>" if name in FORMATS else None


Format = Annotated[
    Annotated[Json, Tag("<json>")]
    | Annotated[Avro, Tag("<avro>")]
    | Annotated[Protobuf, Tag("<protobuf>")]
    | Annotated[Csv, Tag("<csv>")]
    | Annotated[Raw, Tag("<raw>")],
    Discriminator(
        _format_of,
        custom_error_type="format",
        custom_error_message="there is no such format",
    ),
]
