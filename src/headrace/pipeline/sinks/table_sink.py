"""The interface of all table sinks, and the types that runner and sinks share.

A sink is exactly-once because its commit contains the rows together with the pipeline, the batch
and the offsets. After a crash the table itself says what it holds, and a batch that runs again is
recognised and skipped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange

if TYPE_CHECKING:
    from headrace.pipeline.sinks.topic_delivery import Delivery

T = TypeVar("T")

TaskWriter = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Runs in Spark's tasks: takes rows, returns descriptions of written files. Picklable."""


class SinkError(Exception):
    """The sink cannot accept the rows. The message says where, why, and what to do."""


class TableGone(SinkError):
    """The table was deleted while the pipeline was running."""

    def __init__(self, location: str) -> None:
        super().__init__(f"{location}: the table does not exist any more; restart the pipeline")


def existing_table(table: T | None, location: str) -> T:
    """The table; raises `TableGone` if it does not exist."""
    if table is None:
        raise TableGone(location)
    return table


class Mode(StrEnum):
    """How rows are added to the table."""

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
        return {each.topic_partition: each.end for each in self.ranges}


class CommittedBatch(NamedTuple):
    """A pipeline's last batch in a table, and the offsets at which reading continues."""

    batch_id: int
    offsets: Mapping[TopicPartition, int]
    version: str
    """The table's version or snapshot of the commit."""


class WrittenFile(NamedTuple):
    """A file that a task has written and closed; a commit makes it part of the table."""

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
    """The result of a compaction or a vacuum."""

    files_added: int = 0
    files_removed: int = 0
    bytes_removed: int = 0


class TableSink(Protocol):
    """One table. Everything but `write_task`'s result runs on the driver."""

    def last_commit(
        self, pipeline: str, partitions: Sequence[TopicPartition]
    ) -> CommittedBatch | None:
        """The last batch and the offsets of these partitions; None if the pipeline never wrote."""
        ...

    def writers(self) -> Mapping[str, Set[str]]:
        """The pipelines that have written to the table, each with the topics that it read."""
        ...

    def prepare(self, schema: pa.Schema) -> None:
        """Creates the table, or checks and evolves it, for rows of this schema."""
        ...

    def write_task(self, batch: BatchInfo) -> "TaskWriter | Delivery":
        """The tasks' writer. Nothing that it writes is visible before `commit`."""
        ...

    def commit(self, batch: BatchInfo, written: Sequence[WrittenFile]) -> CommittedBatch:
        """Adds the files to the table. A batch that is already committed is not added again."""
        ...

    def compact(self) -> MaintenanceReport:
        """Joins small files."""
        ...

    def vacuum(self, older_than_hours: float) -> MaintenanceReport:
        """Removes files that no version within that time uses, including orphans of crashes."""
        ...
