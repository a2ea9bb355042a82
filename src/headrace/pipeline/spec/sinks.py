"""Where rows go: the `sink:` section."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from headrace.pipeline.spec.sources import TopicName
from headrace.pipeline.spec.spec_values import Duration, Location, Settings, Size, TemplatePart

ColumnName = Annotated[str, Field(min_length=1)]


class Maintenance(TemplatePart):
    """Small files joined and old ones deleted, between batches."""

    compact_every: Duration | None = None
    target_file_size: Size = 128 * 10**6
    vacuum_every: Duration | None = None
    retain: Duration = 7 * 86400.0


class TableSink(TemplatePart):
    """What the tables have in common."""

    mode: Literal["append", "merge"] = "append"
    key: tuple[ColumnName, ...] = ()
    """The columns that identify a row, for merge."""
    partition_by: tuple[ColumnName, ...] = ()
    schema_evolution: Literal["add_columns", "none"] = "add_columns"
    other_pipelines: Literal["refuse", "allow"] = "refuse"
    """Whether a pipeline of another name may have written the same topics to the table."""
    storage_options: Settings = Settings()
    maintenance: Maintenance = Maintenance()


class Delta(TableSink):
    """A Delta table."""

    format: Literal["delta"] = "delta"
    table: Location


class Iceberg(TableSink):
    """An Iceberg table."""

    format: Literal["iceberg"] = "iceberg"
    table: str = Field(pattern=r"^[^./]+(\.[^./]+)+$")
    """`namespace.table`."""
    warehouse: Location | None = None
    """Where a SQL catalog in a file of its own is to keep the tables."""
    catalog: Settings = Settings()
    """Properties of pyiceberg's catalog; a SQL catalog in the warehouse by default."""


class Parquet(TableSink):
    """A folder of Parquet files with a manifest a batch."""

    format: Literal["parquet"] = "parquet"
    table: Location


class Topic(TemplatePart):
    """A topic, written in transactions."""

    format: Literal["topic"] = "topic"
    topic: TopicName
    value: Literal["json", "raw"] = "json"
    """`json`: all columns as an object. `raw`: the column `value`."""
    key: tuple[ColumnName, ...] = ()
    """The columns of the record's key, as JSON; none = the column `key` where there is one."""
    kafka: Settings = Settings()
    """Client settings of this sink alone, over those of the pipeline."""
    mode: Literal["append"] = "append"


SINKS = ("delta", "iceberg", "parquet", "topic")


def _sink_of(value: object) -> str | None:
    name = value.get("format") if isinstance(value, dict) else getattr(value, "format", None)
    return f"<{name}>" if name in SINKS else None


Sink = Annotated[
    Annotated[Delta, Tag("<delta>")]
    | Annotated[Iceberg, Tag("<iceberg>")]
    | Annotated[Parquet, Tag("<parquet>")]
    | Annotated[Topic, Tag("<topic>")],
    Discriminator(
        _sink_of,
        custom_error_type="sink_format",
        custom_error_message="there is no such sink",
    ),
]
