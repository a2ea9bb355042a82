"""What every table sink does, and the words that a runner and a sink share.

A sink is exactly-once because its own commit carries the pipeline, the batch and the offsets, all
at once: after a crash the table itself says what it holds, and a batch that is replayed is
recognised and skipped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange

if TYPE_CHECKING:
    from headrace.pipeline.sinks.topic_delivery import Delivery

TaskWriter = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Runs in Spark's tasks: rows in, descriptions of written files out. Must be picklable."""


class SinkError(Exception):
    """The table cannot take the rows: which, why, and what to do about it."""


class TableGone(SinkError):
    """Somebody deleted the table while a pipeline writes to it."""

    def __init__(self, location: str) -> None:
        super().__init__(f"{location}: the table is gone; start the pipeline anew")


class Mode(StrEnum):
    """What a row does to the rows that are there."""

    APPEND = "append"
    MERGE = "merge"


class BatchInfo(NamedTuple):
    """One batch of one pipeline. A replay has the same id and the same ranges."""

    pipeline: str
    batch_id: int
    ranges: tuple[OffsetRange, ...]
    schema_version: int = 1

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The next offset to read, by partition."""
        return {each.of: each.end for each in self.ranges}


class CommittedBatch(NamedTuple):
    """What a table says about itself: the last batch of a pipeline and where to read on."""

    batch_id: int
    offsets: Mapping[TopicPartition, int]
    version: str
    """The table's version or snapshot that made it so."""


class WrittenFile(NamedTuple):
    """A file that a task has written and closed; it belongs to the table once it is committed."""

    path: str
    rows: int
    size_bytes: int
    partition_values: Mapping[str, str | None]
    stats: str = ""


@dataclass(frozen=True, slots=True)
class TableSettings:
    """A table as its spec describes it."""

    location: str
    mode: Mode = Mode.APPEND
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    add_columns: bool = True
    storage_options: Mapping[str, str] | None = None
    target_file_bytes: int = 128 << 20


class MaintenanceReport(NamedTuple):
    """What a clean-up has done."""

    files_added: int = 0
    files_removed: int = 0
    bytes_removed: int = 0


class TableSink(Protocol):
    """One table. Everything but `write_task`'s result runs on the driver."""

    def last_commit(
        self, pipeline: str, partitions: Sequence[TopicPartition]
    ) -> CommittedBatch | None:
        """What the table holds of these partitions; None if the pipeline never wrote to it."""
        ...

    def writers(self) -> Mapping[str, Set[str]]:
        """The pipelines that have written to the table, each with the topics that it read."""
        ...

    def prepare(self, schema: pa.Schema) -> None:
        """Makes the table, or checks and evolves it, for rows of this schema."""
        ...

    def write_task(self, batch: BatchInfo) -> "TaskWriter | Delivery":
        """What tasks do with their rows; nothing that it writes is visible before `commit`."""
        ...

    def commit(self, batch: BatchInfo, written: Sequence[WrittenFile]) -> CommittedBatch:
        """Makes the files part of the table, once: a batch that is already in is left alone."""
        ...

    def compact(self) -> MaintenanceReport:
        """Joins small files."""
        ...

    def vacuum(self, older_than_hours: float) -> MaintenanceReport:
        """Removes files that no version within that time uses, orphans of crashes among them."""
        ...
