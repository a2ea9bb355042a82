"""Where records come from: the `source:` section."""

from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Discriminator, Field, Tag

from headrace.pipeline.spec.formats import Format, Json
from headrace.pipeline.spec.spec_values import Location, SchemaText, Settings, Size, TemplatePart

TopicName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
_Whole = Annotated[int, Field(ge=0)]


class StartOffsets(TemplatePart):
    """From these offsets; partitions that are not named start at their first record."""

    offsets: dict[TopicName, dict[_Whole, _Whole]]


class StartTimestamp(TemplatePart):
    """From the first record of that time or later."""

    timestamp: AwareDatetime


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
        custom_error_message="is no place to start",
    ),
]


class TopicSource(TemplatePart):
    """Records of topics."""

    topics: tuple[TopicName, ...] = ()
    pattern: str | None = None
    start: Start = "earliest"
    value: Format = Json()
    key: Format | None = None
    kafka: Settings = Settings()
    """Client settings of this source alone, over those of the pipeline."""
    max_records_per_batch: int = Field(default=2_000_000, ge=1)
    max_bytes_per_batch: Size | None = None
    max_record_bytes: Size = 16 * 2**20
    """A larger value is a bad record (TooLarge)."""
    on_data_loss: Literal["fail", "continue"] = "fail"
    """What to do when records were deleted before they were read, or the topic was recreated."""
    on_corrupt: Literal["fail", "skip"] = "fail"
    """What to do with a batch of records that is damaged in the log: stop, or go on behind it. What
    is skipped is told with its offsets, and its bytes go to the dead letters, if there are any."""
    on_null_value: Literal["error", "skip", "keep"] = "error"
    """Whether a record without a value (a tombstone) is bad, left out, or a row of nulls. With
    `mode: merge` it deletes, and with `format: raw` it is a null."""


_OWN_LINES: Final = frozenset({"multiline", "encoding", "charset", "linesep"})
"""Options of Spark's readers."""


class FileSource(TemplatePart):
    """New files of a folder, each read once."""

    files: Location
    """A folder, or a pattern such as `in/*.json`."""
    format: Literal["json", "csv", "parquet"]
    schema_: SchemaText | None = Field(default=None, alias="schema")
    options: dict[str, str | int | bool] = Field(default_factory=dict)
    """Options of Spark's reader of that format."""
    max_files_per_batch: int = Field(default=1000, ge=1)
    max_bytes_per_batch: Size = 256 * 2**20
    """A file that is larger is a batch of its own."""
    storage_options: Settings = Settings()

    @property
    def has_own_lines(self) -> bool:
        """Whether a line of the file is something else than a row, by the options."""
        return any(name.lower() in _OWN_LINES for name in self.options)


class DeltaSource(TemplatePart):
    """Rows that a Delta table gains, version by version."""

    delta: Location
    start: Literal["earliest", "latest"] | int = "earliest"
    max_versions_per_batch: int = Field(default=100, ge=1)
    max_bytes_per_batch: Size = 256 * 2**20
    """A version that is larger takes several batches."""
    storage_options: Settings = Settings()


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
