"""What a flow reads from, as batches of files: a folder, or a Delta table's versions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from headrace.pipeline.inflow.delta_log import DeltaLog, NotAppended
from headrace.pipeline.inflow.files import list_files, next_files
from headrace.pipeline.inflow.intent import Intent
from headrace.pipeline.spec.sources import DeltaSource, FileSource, TopicSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Input(Protocol):
    """Plans batches and reads them."""

    def next_intent(self, batch_id: int, before: Iterable[Intent]) -> Intent | None:
        """The next batch, after all those `before`; None if there is nothing new."""
        ...

    def read(self, spark: "SparkSession", intent: Intent) -> "DataFrame":
        """The rows of a batch."""
        ...


class Folder:
    """New files of a folder. A file is read once, by its path: it must not change."""

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def next_intent(self, batch_id: int, before: Iterable[Intent]) -> Intent | None:
        source = self._source
        read = {path for intent in before for path in intent.files}
        found = list_files(source.files, source.storage_options.resolved() or None)
        chosen = next_files(found, read, source.max_files_per_batch, source.max_bytes_per_batch)
        return Intent(batch_id, tuple(chosen)) if chosen else None

    def read(self, spark: "SparkSession", intent: Intent) -> "DataFrame":
        source = self._source
        reader = spark.read.format(source.format)
        if source.format != "parquet":
            # A line that cannot be read stops the flow; Spark would make it a row of nulls.
            reader = reader.option("mode", "FAILFAST")
        if source.format == "csv" and "header" not in source.options:
            reader = reader.option("header", "true")
        for name, value in source.options.items():
            reader = reader.option(name, str(value).lower() if value in (True, False) else value)
        if source.schema_ is not None:
            reader = reader.schema(schema_text(source.schema_))
        elif source.format == "csv":
            reader = reader.option("inferSchema", "true")
        return reader.load(list(intent.files))


class Table:
    """What versions of a Delta table add."""

    def __init__(self, source: DeltaSource) -> None:
        self._source = source
        self._log = DeltaLog(source.delta, source.storage_options.resolved() or None)

    def next_intent(self, batch_id: int, before: Iterable[Intent]) -> Intent | None:
        read = max((intent.through for intent in before), default=None)
        versions = self._log.versions()
        if not versions:
            raise NotAppended(f"there is no Delta table at {self._source.delta}")
        start = self._start(versions) if read is None else read + 1
        wanted = [each for each in versions if each >= start]
        if start < versions[0] or (wanted and wanted[0] != start):
            raise NotAppended(
                f"version {start} of {self._source.delta} is no longer in its log. Start with one "
                f"that is (start: {versions[0]}), in a pipeline of another name"
            )
        wanted = wanted[: self._source.max_versions_per_batch]
        if read is None and not wanted:
            return Intent(batch_id, (), through=start - 1)  # where `latest` was
        if not wanted:
            return None
        files = tuple(path for version in wanted for path in self._log.added(version))
        return Intent(batch_id, files, through=wanted[-1])

    def _start(self, versions: list[int]) -> int:
        match self._source.start:
            case "earliest":
                return 0
            case "latest":
                return versions[-1] + 1
            case version:
                return version

    def read(self, spark: "SparkSession", intent: Intent) -> "DataFrame":
        reader = spark.read.option("basePath", self._source.delta).option("mergeSchema", "true")
        return reader.parquet(*intent.files)


def schema_text(schema: str) -> str:
    """The DDL itself, or what the file holds."""
    from pathlib import Path

    from headrace.pipeline.spec.values import is_schema_file

    return Path(schema).read_text(encoding="utf-8") if is_schema_file(schema) else schema


def open_input(source: FileSource | DeltaSource | TopicSource) -> Input:
    match source:
        case FileSource():
            return Folder(source)
        case DeltaSource():
            return Table(source)
        case TopicSource():
            raise TypeError("topics are read by the runner")
