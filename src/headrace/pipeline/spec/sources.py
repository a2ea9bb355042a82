"""The sources, from which records are read: the `source:` section."""

from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Discriminator, Field, Tag

from headrace.pipeline.spec.formats import Format, Json
from headrace.pipeline.spec.spec_values import Location, SchemaText, Settings, Size, TemplatePart

TopicName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
_NonNegative = Annotated[int, Field(ge=0)]


class StartOffsets(TemplatePart):
    """From these offsets; partitions that are not named start at their first record."""

    offsets: dict[TopicName, dict[_NonNegative, _NonNegative]]
    """For each topic, the first offset to read of each partition."""


class StartTimestamp(TemplatePart):
    """From the first record of that time or later."""

    timestamp: AwareDatetime
    """A time with its zone, such as `2026-01-31T12:00:00Z`."""


def _start_of(value: object) -> str | None:
    if isinstance(value, str):
        return "<word>"
    if isinstance(value, StartOffsets) or (isinstance(value, dict) and "offsets" in value):
        return "<offsets>"
    if isinstance(value, StartTimestamp) or (isinstance(value, dict) and "timestamp" in value):
        return "<timestamp>"
    return None


Start = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("<word>")]
    | Annotated[StartOffsets, Tag("<offsets>")]
    | Annotated[StartTimestamp, Tag("<timestamp>")],
    Discriminator(
        _start_of,
        custom_error_type="start",
        custom_error_message="is not a valid start",
    ),
]


class TopicSource(TemplatePart):
    """Records of topics."""

    topics: tuple[TopicName, ...] = ()
    """The topics to read."""
    pattern: str | None = None
    """A regular expression instead of `topics`: every topic whose whole name matches is read."""
    start: Start = "earliest"
    """Where the first run starts to read. Later runs continue where the last one stopped."""
    value: Format = Json()
    """The format of the records' values."""
    key: Format | None = None
    """The format of the records' keys. Without it, keys are not parsed."""
    kafka: Settings = Settings()
    """Client settings of this source alone, over those of the pipeline."""
    max_records_per_batch: int = Field(default=2_000_000, ge=1)
    """The largest number of records that one batch reads."""
    max_bytes_per_batch: Size | None = None
    """The largest number of bytes that one batch reads. The default depends on the sink: a topic
    sink takes about 256 MB."""
    max_record_bytes: Size = 16 * 2**20
    """A larger value is a bad record (TooLarge)."""
    on_data_loss: Literal["fail", "continue"] = "fail"
    """What to do when records were deleted before they were read, or the topic was recreated."""
    on_corrupt: Literal["fail", "skip"] = "fail"
    """What to do with a record batch that is damaged in the log: stop, or continue after it. The
    offsets of a skipped batch are reported, and its bytes go to the dead-letter topic, if any."""
    on_null_value: Literal["error", "skip", "keep"] = "error"
    """What a record without a value (a tombstone) is: a bad record, skipped, or a row of nulls.
    With `mode: merge` it deletes the row of its key. With `format: raw` it is a null."""


_LINE_OPTIONS: Final = frozenset({"multiline", "encoding", "charset", "linesep"})
"""Options of Spark's readers that change what a line of the file is."""


class FileSource(TemplatePart):
    """New files of a folder, each read once."""

    files: Location
    """A folder, or a pattern such as `in/*.json`."""
    format: Literal["json", "csv", "parquet"]
    """The format of the files."""
    schema_: SchemaText | None = Field(default=None, alias="schema")
    """The columns: Spark DDL, or a file that contains it. Without it, the files define them."""
    options: dict[str, str | int | bool] = Field(default_factory=dict)
    """Options of Spark's reader of that format."""
    max_files_per_batch: int = Field(default=1000, ge=1)
    """The largest number of files that one batch reads."""
    max_bytes_per_batch: Size = 256 * 2**20
    """The largest number of bytes that one batch reads. A larger file is a batch of its own."""
    storage_options: Settings = Settings()
    """Settings of the object store that holds the files."""

    @property
    def has_own_lines(self) -> bool:
        """Whether the options change lines, so that a line is not necessarily a row."""
        return any(name.lower() in _LINE_OPTIONS for name in self.options)


class DeltaSource(TemplatePart):
    """Rows that a Delta table gains, version by version."""

    delta: Location
    """The table: a directory, or a URL of an object store."""
    start: Literal["earliest", "latest"] | int = "earliest"
    """The table version at which the first run starts."""
    max_versions_per_batch: int = Field(default=100, ge=1)
    """The largest number of table versions that one batch reads."""
    max_bytes_per_batch: Size = 256 * 2**20
    """The largest number of bytes that one batch reads. A larger version takes several batches."""
    storage_options: Settings = Settings()
    """Settings of the object store that holds the table."""


def _source_of(value: object) -> str:
    if isinstance(value, FileSource) or (isinstance(value, dict) and "files" in value):
        return "<files>"
    if isinstance(value, DeltaSource) or (isinstance(value, dict) and "delta" in value):
        return "<delta>"
    return "<topics>"


Source = Annotated[
    Annotated[TopicSource, Tag("<topics>")]
    | Annotated[FileSource, Tag("<files>")]
    | Annotated[DeltaSource, Tag("<delta>")],
    Discriminator(_source_of),
]
