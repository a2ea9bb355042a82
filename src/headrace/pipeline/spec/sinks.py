"""The sinks, to which rows are written: the `sink:` section."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from headrace.pipeline.spec.sources import TopicName
from headrace.pipeline.spec.spec_values import (
    Duration,
    Location,
    Settings,
    Size,
    TemplatePart,
    format_tagger,
)

ColumnName = Annotated[str, Field(min_length=1)]


class Maintenance(TemplatePart):
    """Compaction of small files and deletion of unused ones, between batches."""

    compact_every: Duration | None = None
    """How often small files are joined. Without it, never."""
    target_file_size: Size = 128 * 10**6
    """The size up to which files are joined."""
    vacuum_every: Duration | None = None
    """How often files are deleted that no longer belong to the table. Without it, never."""
    retain: Duration = 7 * 86400.0
    """How long such files, and the table versions that need them, are kept."""


class TableSink(TemplatePart):
    """What the tables have in common."""

    mode: Literal["append", "merge"] = "append"
    """`append` adds rows. `merge` replaces the row with the same `key`."""
    key: tuple[ColumnName, ...] = ()
    """The columns that identify a row; required by `mode: merge`."""
    partition_by: tuple[ColumnName, ...] = ()
    """The columns by which a new table is partitioned."""
    schema_evolution: Literal["add_columns", "none"] = "add_columns"
    """Whether a new column of the rows is added to the table, or stops the pipeline."""
    other_pipelines: Literal["refuse", "allow"] = "refuse"
    """Whether a pipeline of another name may have written the same topics to the table."""
    storage_options: Settings = Settings()
    """Settings of the object store that holds the table."""
    maintenance: Maintenance = Maintenance()
    """Compaction and vacuum."""


class Delta(TableSink):
    """A Delta table."""

    format: Literal["delta"] = "delta"
    """Selects this sink."""
    table: Location
    """The table: a directory, or a URL of an object store."""


class Iceberg(TableSink):
    """An Iceberg table."""

    format: Literal["iceberg"] = "iceberg"
    """Selects this sink."""
    table: str = Field(pattern=r"^[^./]+(\.[^./]+)+$")
    """`namespace.table`."""
    warehouse: Location | None = None
    """The directory or URL for tables and, without `catalog`, for a SQL catalog in a file."""
    catalog: Settings = Settings()
    """Properties of pyiceberg's catalog. Without them, a SQL catalog in the warehouse is used."""


class Parquet(TableSink):
    """A folder of Parquet files with one manifest per batch."""

    format: Literal["parquet"] = "parquet"
    """Selects this sink."""
    table: Location
    """The folder: a directory, or a URL of an object store."""


class Topic(TemplatePart):
    """A topic, written in transactions."""

    format: Literal["topic"] = "topic"
    """Selects this sink."""
    topic: TopicName
    """The topic to write. It is created if it does not exist."""
    value: Literal["json", "raw"] = "json"
    """`json`: all columns as an object. `raw`: the column `value`."""
    key: tuple[ColumnName, ...] = ()
    """The columns of the record's key, written as JSON. Without them, the column `key`, if any."""
    kafka: Settings = Settings()
    """Client settings of this sink alone, over those of the pipeline."""
    mode: Literal["append"] = "append"
    """Topics are only appended to."""


SINKS = ("delta", "iceberg", "parquet", "topic")


Sink = Annotated[
    Annotated[Delta, Tag("<delta>")]
    | Annotated[Iceberg, Tag("<iceberg>")]
    | Annotated[Parquet, Tag("<parquet>")]
    | Annotated[Topic, Tag("<topic>")],
    Discriminator(
        format_tagger(SINKS),
        custom_error_type="sink_format",
        custom_error_message="unknown sink format",
    ),
]
