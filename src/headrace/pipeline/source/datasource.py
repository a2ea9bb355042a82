"""Spark's side of the source: a data source with a batch reader and a stream reader.

Spark pickles the readers and sends them to its workers. So the readers contain only options, and
no open resources. Offsets and partitions are computed on the driver; only `read` runs in tasks.

Spark starts a new Python process on the driver for each streaming query and waits for it.
Therefore, modules that only tasks need are imported in the tasks.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange, limited
from headrace.pipeline.source import row_schema
from headrace.pipeline.source.admin import LogAdmin
from headrace.pipeline.source.options import DAMAGE, SourceOptions, read_options
from headrace.pipeline.source.read_plan import (
    batch_ranges,
    checked,
    find_partitions,
    resolve,
    tasks,
)
from headrace.pipeline.source.settings import DataLost
from headrace.process_tuning import keep_freed_memory

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.records.arrow.columns import RecordArrays

Position = dict[str, dict[str, int]]
"""Offsets by topic and partition, as Spark keeps them in its checkpoint."""
BEGINNING = "."  # a key beside the topics; no topic can have this name


class Task(InputPartition):
    """The offset ranges that one task reads, in order."""

    def __init__(self, wanted: tuple[OffsetRange, ...]) -> None:
        super().__init__(tuple(map(tuple, wanted)))
        self.wanted = wanted


class HeadraceSource(DataSource):
    """`format("headrace")`."""

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> str:
        return row_schema.schema(
            with_headers=self._has("includeHeaders"), with_damage=self._has(DAMAGE)
        )

    def _has(self, name: str) -> bool:
        return str(self.options.get(name, "false")).lower() == "true"

    def reader(self, schema: StructType) -> "BatchReader":
        return BatchReader(read_options(dict(self.options), streaming=False))

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        return StreamReader(read_options(dict(self.options), streaming=True))


class BatchReader(DataSourceReader):
    """Reads from the starting to the ending offsets. Both are fixed when the read is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        admin = LogAdmin(self._options.read)
        planned = tasks(batch_ranges(admin, self._options), self._options)
        # Spark calls `read(None)` if there are no partitions.
        return [Task(each) for each in planned] or [Task(())]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, Task)
        return _read(partition.wanted, self._options)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches. A partition that appears later is read from its first offset."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._initial: Position | None = None
        self._available: dict[TopicPartition, int] | None = None
        self._seen: dict[TopicPartition, int] | None = None

    def initialOffset(self) -> Position:  # noqa: N802
        """Returns the same answer for the whole query.

        Spark asks again when it plans the first batch. With a different answer, the records between
        the two offsets would not be read.
        """
        if self._initial is None:
            admin = LogAdmin(self._options.read)
            partitions = find_partitions(admin, self._options)
            self._initial = to_position(resolve(admin, self._options.start, partitions))
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._available = self._latest()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:  # noqa: N802
        begin = from_position(start)
        latest = self._available if self._available is not None else self._latest()
        new = sorted(set(latest) - set(begin))
        if new:
            begin.update(LogAdmin(self._options.read).earliest(new))
        ranges = [
            OffsetRange(each.topic, each.partition, begin[each], max(end, begin[each]))
            for each, end in sorted(latest.items())
        ]
        if isinstance(limit, ReadMaxRows):
            ranges = limited(ranges, limit.max_rows)
        position = to_position({each.topic_partition: each.end for each in ranges})
        if start == self._initial and self._options.start.moves and any(r.size for r in ranges):
            position[BEGINNING] = {str(each): offset for each, offset in begin.items()}
        return position

    def reportLatestOffset(self) -> Position | None:  # noqa: N802
        """For the query's progress: the end offsets when the last batch was planned."""
        return None if self._seen is None else to_position(self._seen)

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        admin = LogAdmin(self._options.read)
        begin, until = _beginning(end) or from_position(start), from_position(end)
        gone = sorted(set(begin) - set(until))
        if gone and self._options.fail_on_data_loss:
            raise DataLost(
                f"{', '.join(map(str, gone))} is gone: its topic was deleted. "
                "Set failOnDataLoss to false to go on without it"
            )
        new = [each for each in until if each not in begin]
        begin = {each: begin[each] for each in until if each in begin}
        begin.update(admin.earliest(new) if new else {})
        ranges = checked(admin, begin, until, fail_on_data_loss=self._options.fail_on_data_loss)
        return [Task(each) for each in tasks(ranges, self._options)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, Task)
        return _read(partition.wanted, self._options)

    def commit(self, end: Position) -> None:
        """Does nothing: Spark stores the position itself."""

    def stop(self) -> None:
        """Does nothing: the reader has no open resources."""

    def _latest(self) -> dict[TopicPartition, int]:
        admin = LogAdmin(self._options.read)
        self._seen = admin.latest(find_partitions(admin, self._options))
        return self._seen


def to_position(offsets: Mapping[TopicPartition, int]) -> Position:
    position: Position = {}
    for (topic, partition), offset in sorted(offsets.items()):
        position.setdefault(topic, {})[str(partition)] = offset
    return position


def from_position(position: Position) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in position.items()
        if topic != BEGINNING
        for partition, offset in partitions.items()
    }


def _beginning(end: Position) -> dict[TopicPartition, int] | None:
    """Where the query's first batch begins, if `end` is the end of that batch.

    Spark stores only the end of a batch. After a crash, it asks again for the beginning of the
    first batch, and the latest offset has changed by then.
    """
    noted = end.get(BEGINNING)
    if noted is None:
        return None
    places = ((name.rpartition("-"), offset) for name, offset in noted.items())
    return {TopicPartition(topic, int(index)): offset for (topic, _, index), offset in places}


def _read(wanted: tuple[OffsetRange, ...], options: SourceOptions) -> "Iterator[pa.RecordBatch]":
    for (topic, partition), records in records_of(wanted, options):
        yield row_schema.to_batch(records, topic, partition, with_damage=options.read.with_damage)


def records_of(
    wanted: tuple[OffsetRange, ...], options: SourceOptions
) -> "Iterator[tuple[TopicPartition, RecordArrays]]":
    """The records that a task reads. Prepares the worker process first."""
    if not wanted:
        return
    from headrace.pipeline.source.record_reader import read_ranges

    _keep_pages()
    for read in read_ranges(wanted, options.read, fail_on_data_loss=options.fail_on_data_loss):
        _settle()
        yield read


@cache
def _keep_pages() -> None:
    """Runs once in each worker process: a chunk reuses the memory of the chunk before it.

    By default, glibc returns blocks of several megabytes to the kernel each time. Getting the pages
    back takes a quarter of a reader's CPU time.
    """
    keep_freed_memory()


@cache
def _settle() -> None:
    """Runs once in each worker process, after the first chunk is decoded and all code is loaded.

    Spark's worker runs the garbage collector after each task. With the decoder's compiler loaded,
    the collector visits 160,000 objects, which takes 70 ms. These objects are never freed.
    """
    gc.freeze()
