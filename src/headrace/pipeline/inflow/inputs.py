"""The inputs of flows, as batches of files: a directory, or the versions of a Delta table."""

import re
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from headrace.pipeline.formats.errors import FormatError
from headrace.pipeline.formats.schema import StructOf, parse_ddl
from headrace.pipeline.formats.schema_mismatch import Explanation
from headrace.pipeline.inflow.batch_intent import BatchIntent
from headrace.pipeline.inflow.csv_quotes import (
    BadText,
    Quoting,
    chunks_of,
    scan_quotes,
    utf8,
)
from headrace.pipeline.inflow.delta_log import DeltaLog, NotAppended
from headrace.pipeline.inflow.file_rows import csv_rows, json_rows, whole_rows
from headrace.pipeline.inflow.input_files import FoundFile, for_spark, list_files, next_files
from headrace.pipeline.inflow.schema_text import ddl_of
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.sources import DeltaSource, FileSource, TopicSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

TO_DO: Final = "Correct the file or the spec and start again; nothing of the batch is in the topic"
_ROW_NUMBER: Final = "_metadata.row_index"
_UNREADABLE: Final = ("FAILED_READ_FILE", "MALFORMED_RECORD_IN_PARSING", "MALFORMED_CSV_RECORD")
_FILE: Final = re.compile(r"while reading file (?:file://)?(\S+?)\.?(?:\s|$)")


class BadFile(Exception):
    """A file that cannot be read. The message says which, why, and what to do."""


class InputProgress(NamedTuple):
    """The progress of reading: in files of a directory, or in versions of a table."""

    unit: str
    location: str
    held: int
    """The number of files that were read, or the last version that was read."""
    end: int
    """The number of files that exist, or the newest version."""
    lag: int


class Rows(NamedTuple):
    """The rows of a batch, and the explanation of bad lines by field."""

    frame: "DataFrame"
    explanation: Explanation | None = None


class ResetTarget(NamedTuple):
    """The target of a reset: `beginning`, `end`, a `version`, or files since a `time` in
    seconds."""

    kind: Literal["beginning", "end", "version", "time"]
    value: float = 0.0


class NotMovable(Exception):
    """A reset target that the source does not support. The message lists the valid ones."""


class Input(Protocol):
    """Plans batches and reads them."""

    def next_intent(self, batch_id: int, before: Iterable[BatchIntent]) -> BatchIntent | None:
        """The next batch, after all those `before`; None if there is no new input."""
        ...

    @property
    def storage_options(self) -> Mapping[str, str] | None:
        """The options to open the files with."""
        ...

    def read(self, spark: "SparkSession", intent: BatchIntent, flow: Flow) -> Rows:
        """The rows of a batch, with Headrace's own columns."""
        ...

    def clearer_error(self, error: Exception) -> Exception:
        """A clearer error for the error of a batch, or the error itself."""
        ...

    def progress(self, before: Iterable[BatchIntent]) -> InputProgress:
        """The progress after the batches `before`."""
        ...

    def reset_intent(self, batch_id: int, to: ResetTarget) -> BatchIntent:
        """The empty batch that moves the position to the target; raises `NotMovable`."""
        ...


class FolderInput:
    """New files of a directory. Each path is read once, so a file must not change."""

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def next_intent(self, batch_id: int, before: Iterable[BatchIntent]) -> BatchIntent | None:
        source = self._source
        chosen = next_files(
            self._found(), _known(before), source.max_files_per_batch, source.max_bytes_per_batch
        )
        return BatchIntent(batch_id, tuple(chosen)) if chosen else None

    def _found(self) -> list[FoundFile]:
        return list_files(self._source.files, self.storage_options)

    def progress(self, before: Iterable[BatchIntent]) -> InputProgress:
        known = _known(before)
        found = [each.path for each in self._found()]
        waiting = sum(path not in known for path in found)
        return InputProgress("files", self._source.files, len(found) - waiting, len(found), waiting)

    def reset_intent(self, batch_id: int, to: ResetTarget) -> BatchIntent:
        """From `beginning`, all files are read again; from `end`, only files that are new."""
        match to.kind:
            case "beginning":
                passed: list[str] = []
            case "end":
                passed = [each.path for each in self._found()]
            case "time":
                passed = [each.path for each in self._found() if each.modified_s < to.value]
            case _:
                raise NotMovable(
                    f"{self._source.files} is a folder of files: it can be read from beginning, "
                    "from end, or from s@TIME, the files that were modified since"
                )
        return BatchIntent(batch_id, (), passed=tuple(passed), is_anew=True)

    def read(self, spark: "SparkSession", intent: BatchIntent, flow: Flow) -> Rows:
        source, files = self._source, [for_spark(each) for each in intent.files]
        reader = self._reader(spark)
        if source.has_own_lines or source.format == "parquet":
            # Unreadable data stops the flow; Spark would return a row of nulls.
            reader = reader.option("mode", "FAILFAST")
            if source.schema_ is not None:
                reader = reader.schema(schema_text(source.schema_))
            elif source.format == "parquet" and "mergeSchema" not in source.options:
                # Otherwise Spark uses the columns of one file, and drops all others.
                reader = reader.option("mergeSchema", "true")
            number = {"number": _ROW_NUMBER} if source.format == "parquet" else {}
            return Rows(whole_rows(reader.load(files), flow, **number))
        if source.format == "csv":
            return Rows(self._csv(spark, intent.files, flow))
        schema = self._schema(spark, files)
        lines = spark.read.options(**self._options()).text(files)
        columns = _columns(schema)
        strict = source.schema_ is not None and not any(
            name.lower() == "primitivesasstring" for name in source.options
        )
        rows = json_rows(lines, schema, self._options(), flow, columns if strict else None)
        own_times = any(name.lower().endswith("format") for name in source.options)
        if columns is None:
            return Rows(rows)
        return Rows(rows, Explanation(columns, judges_times=not own_times))

    def _csv(self, spark: "SparkSession", files: tuple[str, ...], flow: Flow) -> "DataFrame":
        """Reads each file with values that span lines in one task, and the others in many."""
        parted: dict[str, list[str]] = {}
        for path in files:
            parted.setdefault(self._line_ends(path), []).append(for_spark(path))
        schema = self._schema(spark, [for_spark(path) for path in files], spans=any(parted))
        found = []
        for ends, some in parted.items():
            reader = self._reader(spark)
            if ends:
                # With `lineSep`, Spark does not change the line ends within quotes.
                reader = reader.option("multiLine", "true").option("lineSep", ends)
            found.append(csv_rows(reader, some, schema, flow))
        return reduce(lambda all_, more: all_.unionByName(more), found)

    def _line_ends(self, path: str) -> str:
        """The line end of records if quoted values span lines, else "". Raises `BadFile`."""
        quoting = Quoting.from_options(self._options())
        try:
            found = scan_quotes(utf8(chunks_of(path, self.storage_options)), quoting)
        except BadText as error:
            raise BadFile(f"{path}: {error}. {TO_DO}") from error
        if not found.spans_lines:
            return ""
        if len(found.ends) > 1:
            raise BadFile(
                f"{path}: a quoted value spans lines, and records end in different ways "
                f"({', '.join(sorted(map(repr, found.ends)))}): write them with one. {TO_DO}"
            )
        return min(found.ends, default=b"\n").decode()

    def _schema(
        self, spark: "SparkSession", files: list[str], *, spans: bool = False
    ) -> "StructType":
        if self._source.schema_ is not None:
            return spark.createDataFrame([], schema_text(self._source.schema_)).schema
        reader = self._reader(spark).option("multiLine", str(spans).lower())
        return reader.option("mode", "DROPMALFORMED").load(files).schema

    def clearer_error(self, error: Exception) -> Exception:
        if not any(sign in str(error) for sign in _UNREADABLE):
            return error
        kind = self._source.format.upper() if self._source.format != "parquet" else "Parquet"
        named = _FILE.search(str(error))
        names = " with a first line that names the schema's columns" if kind == "CSV" else ""
        return BadFile(f"{named[1]} cannot be read as {kind}{names}. {TO_DO}") if named else error

    @property
    def storage_options(self) -> Mapping[str, str] | None:
        return self._source.storage_options.resolved() or None

    def _options(self) -> dict[str, str]:
        """The reader's options, as texts for Spark."""
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in self._source.options.items()
        }

    def _reader(self, spark: "SparkSession") -> "DataFrameReader":
        source = self._source
        reader = spark.read.format(source.format)
        if source.format == "csv":
            given = {name.lower(): str(value) for name, value in source.options.items()}
            if "header" not in given:
                reader = reader.option("header", "true")
            if "escape" not in given:
                # A quote within quotes is doubled (RFC 4180); Spark's default is a backslash.
                reader = reader.option("escape", given.get("quote", '"'))
            if source.schema_ is None:
                reader = reader.option("inferSchema", "true")
            else:
                # Spark then checks the names in the first line, so that columns are not mixed up.
                reader = reader.option("enforceSchema", "false")
        return reader.options(**self._options())


class DeltaTableInput:
    """The files that versions of a Delta table add."""

    def __init__(self, source: DeltaSource) -> None:
        self._source = source
        self._log = DeltaLog(source.delta, self.storage_options)

    def next_intent(self, batch_id: int, before: Iterable[BatchIntent]) -> BatchIntent | None:
        last = max(before, key=lambda intent: intent.batch_id, default=None)
        read = last.through if last is not None else None
        versions = self._log.versions()
        if not versions:
            raise NotAppended(f"there is no Delta table at {self._source.delta}")
        start = self._start(versions) if read is None else read + 1
        wanted = [each for each in versions if each >= start]
        if start < versions[0] or (wanted and wanted[0] != start):
            raise NotAppended(
                f"version {start} of {self._source.delta} is no longer in its log. Start with one "
                f"that is: `headrace pipeline reset SPEC --to {versions[0]}`"
            )
        wanted = wanted[: self._source.max_versions_per_batch]
        if read is None and not wanted:
            return BatchIntent(batch_id, (), through=start - 1)  # stores the position of `latest`
        if not wanted:
            return None
        return self._within_bounds(batch_id, wanted, last.within if last is not None else 0)

    def _within_bounds(self, batch_id: int, versions: list[int], done: int) -> BatchIntent:
        """The files of these versions, without the first `done` ones, up to the size of a batch."""
        files: list[str] = []
        of: list[int] = []
        size, through = 0, versions[0] - 1
        for version in versions:
            for file in self._log.added(version)[done:]:
                if files and size + file.size > self._source.max_bytes_per_batch:
                    return BatchIntent(
                        batch_id, tuple(files), through=through, within=done, versions=tuple(of)
                    )
                files.append(file.path)
                of.append(version)
                size += file.size
                done += 1
            through, done = version, 0
        return BatchIntent(batch_id, tuple(files), through=through, versions=tuple(of))

    def progress(self, before: Iterable[BatchIntent]) -> InputProgress:
        read = max((intent.through for intent in before), default=None)
        versions = self._log.versions() or [-1]
        held = self._start(versions) - 1 if read is None else read
        newest = versions[-1]
        return InputProgress("versions", self._source.delta, held, newest, max(0, newest - held))

    def reset_intent(self, batch_id: int, to: ResetTarget) -> BatchIntent:
        versions = self._log.versions()
        match to.kind:
            case "beginning":
                through = -1
            case "end":
                through = versions[-1] if versions else -1
            case "version":
                through = int(to.value) - 1
            case _:
                raise NotMovable(
                    f"{self._source.delta} is a Delta table: it can be read from beginning, from "
                    "end, or from the number of a version"
                )
        return BatchIntent(batch_id, (), through=through, is_anew=True)

    def _start(self, versions: list[int]) -> int:
        match self._source.start:
            case "earliest":
                return 0
            case "latest":
                return versions[-1] + 1
            case version:
                return version

    def read(self, spark: "SparkSession", intent: BatchIntent, flow: Flow) -> Rows:
        # The table's schema: Spark would infer the types of partition columns (007 becomes 7).
        reader = spark.read.option("basePath", self._source.delta).schema(self._log.schema())
        files = [for_spark(each) for each in intent.files]
        return Rows(whole_rows(reader.parquet(*files), flow, _ROW_NUMBER))

    def clearer_error(self, error: Exception) -> Exception:
        return error

    @property
    def storage_options(self) -> Mapping[str, str] | None:
        return self._source.storage_options.resolved() or None


def _columns(schema: "StructType") -> StructOf | None:
    """The columns; None if the schema has a type that only Spark supports."""
    try:
        return parse_ddl(ddl_of(schema))
    except FormatError:
        return None


def _known(before: Iterable[BatchIntent]) -> set[str]:
    return {path for intent in before for path in (*intent.files, *intent.passed)}


def schema_text(schema: str) -> str:
    """The DDL itself, or the content of the file."""
    from pathlib import Path

    from headrace.pipeline.spec.spec_values import is_schema_file

    return Path(schema).read_text(encoding="utf-8") if is_schema_file(schema) else schema


def open_input(source: FileSource | DeltaSource | TopicSource) -> Input:
    match source:
        case FileSource():
            return FolderInput(source)
        case DeltaSource():
            return DeltaTableInput(source)
        case TopicSource():
            raise TypeError("topics are read by the runner")
