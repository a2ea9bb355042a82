"""Writes rows into a topic, in two steps of one Spark job.

Tasks of the first step turn rows into records and choose the partition of each. A task of the
second step gets all records of a partition, in the order in which they were read, and writes them
in the transaction that the driver has begun.

The reports of the first step (bad records, and the attempts that the records come from) travel
with the records. So the driver can check that all partitions were made from the same attempts.
After the loss of a worker, Spark may run some tasks of the first step again, and a function that
is not deterministic would put a row into two partitions, or into none.
"""

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.results import TopicPartition
from headrace.pipeline.core.columns import RECORD
from headrace.pipeline.formats.bad_record import BadRecord
from headrace.pipeline.formats.schema_mismatch import Explanation
from headrace.pipeline.producer.batch_sender import (
    TransactionIdentity,
    size_of,
    transactional_batch,
)
from headrace.pipeline.producer.errors import ProducerFailed, TriedAgain
from headrace.pipeline.producer.settings import ProducerSettings
from headrace.pipeline.producer.task_producer import TaskProducer
from headrace.pipeline.sinks.bad_record_split import FILE, REPORT_DDL, REPORT_SCHEMA, Split, line
from headrace.pipeline.sinks.map_in_arrow import map_in_arrow
from headrace.pipeline.sinks.partition_locks import PartitionLocks
from headrace.pipeline.sinks.record_encoding import Encoding
from headrace.pipeline.sinks.table_sink import WrittenFile
from headrace.records.arrow.partitioning import partitions_for_keys
from headrace.records.record import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACED: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("place", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("report", pa.string()),
    ]
)
PLACED_DDL: Final = "partition int, place bigint, key binary, value binary, report string"
ATTEMPT: Final = "attempt"
"""Reports that a task of the first step has run for this partition, with or without records."""
STRIPE_ROWS: Final = 1000
"""Number of consecutive records without a key that go to the same partition."""
PLACE_BITS: Final = 40
"""A place is the number of the task that read the row, and this many bits of the row's number."""
BATCH_OVERHEAD_BYTES: Final = 128


@dataclass(frozen=True)
class Delivery:
    """Picklable: the settings of both steps."""

    topic: str
    partitions: int
    tasks: int
    """The number of tasks of the second step."""
    batch_id: int
    identity: TransactionIdentity
    settings: ProducerSettings
    locks: PartitionLocks
    encoding: Encoding
    max_record_bytes: int
    """The topic's max.message.bytes."""
    on_error: str = "fail"
    """The action for records that are too large."""

    def run(
        self, rows: "DataFrame", staging: str, explanation: Explanation | None = None
    ) -> "DataFrame":
        """The job, not yet started; its result has the columns of `REPORT`."""
        placed = map_in_arrow(rows, PlaceTask(self, staging, explanation), PLACED_DDL)
        together = placed.repartitionById(self.tasks, placed.partition % self.tasks)
        return together.sortWithinPartitions("place").mapInArrow(DeliverTask(self), REPORT_DDL)


@dataclass(frozen=True)
class PlaceTask:
    """The first step: turns the rows of `shape` into records with their partitions."""

    delivery: Delivery
    staging: str
    explanation: Explanation | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.place(batches, _task_number())

    def place(self, batches: Iterator[pa.RecordBatch], task: int) -> Iterator[pa.RecordBatch]:
        """The records of the task of this number."""
        partitions = self.delivery.partitions
        attempt = line(ATTEMPT, path=uuid.uuid4().hex, rows=task)
        yield _reports(list(range(partitions)), task, [attempt] * partitions)
        split = Split(self.staging, {RECORD}, self.explanation)
        number = 0
        try:
            for rows in split.good(batches):
                for at in range(0, rows.num_rows, STRIPE_ROWS):
                    part = rows.slice(at, STRIPE_ROWS)
                    yield self._place_rows(split, part, task, number + at)
                number += rows.num_rows
        finally:
            split.close()
        lines = split.lines()
        yield _reports([task % partitions] * len(lines), task, lines)

    def _place_rows(
        self, split: Split, rows: pa.RecordBatch, task: int, number: int
    ) -> pa.RecordBatch:
        encoding, count = self.delivery.encoding, self.delivery.partitions
        records = rows.column(rows.schema.get_field_index(RECORD))
        rows = rows.drop_columns([RECORD])
        keys = pa.array(encoding.keys(rows), pa.binary())
        values = pa.array(encoding.values(rows), pa.binary())
        stripe = (self.delivery.batch_id + task + number // STRIPE_ROWS) % count
        first = (task << PLACE_BITS) + number
        placed = pa.RecordBatch.from_arrays(
            [
                pa.array(partitions_for_keys(keys, count, without_key=stripe), pa.int32()),
                pa.array(range(first, first + rows.num_rows), pa.int64()),
                keys,
                values,
                pa.nulls(rows.num_rows, pa.string()),
            ],
            schema=PLACED,
        )
        return self._refuse_large_records(split, placed, records)

    def _refuse_large_records(
        self, split: Split, placed: pa.RecordBatch, records: pa.Array
    ) -> pa.RecordBatch:
        """Turns records that are too large for the topic into bad records."""
        limit = self.delivery.max_record_bytes - BATCH_OVERHEAD_BYTES
        sizes = pc.add(
            pc.fill_null(pc.binary_length(placed.column("key")), 0),
            pc.fill_null(pc.binary_length(placed.column("value")), 0),
        )
        suspects = pc.indices_nonzero(pc.greater(sizes, limit)).to_pylist()
        bad = {at for at in suspects if not self._fits(placed.slice(at, 1))}
        if not bad:
            return placed
        for at in sorted(bad):
            split.refuse(
                records.slice(at, 1),
                BadRecord.TOO_LARGE,
                f"the record for {self.delivery.topic} has {sizes[at].as_py()} bytes, but the "
                f"topic accepts {self.delivery.max_record_bytes} (max.message.bytes)",
                self.delivery.on_error,
            )
        good = pa.array([at not in bad for at in range(placed.num_rows)])
        return placed.filter(good)

    def _fits(self, row: pa.RecordBatch) -> bool:
        """Whether the compressed record is small enough."""
        record = Record(0, 0, row.column("key")[0].as_py(), row.column("value")[0].as_py())
        delivery = self.delivery
        batch = transactional_batch([record], delivery.identity, 0, delivery.settings)
        return len(batch) <= delivery.max_record_bytes


@dataclass(frozen=True)
class DeliverTask:
    """The second step: writes a partition's records into the topic and returns reports."""

    delivery: Delivery

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        delivering = _Delivering(self.delivery)
        with TaskProducer(self.delivery.settings, self.delivery.identity) as producer:
            try:
                for rows in batches:
                    for partition, records in delivering.records_by_partition(rows):
                        producer.writer.write(partition, records)
                producer.writer.flush()
            except ProducerFailed as error:
                delivering.failed(error)
                raise
        yield pa.RecordBatch.from_pylist(delivering.lines(), schema=REPORT_SCHEMA)


class _Delivering:
    """The records and reports of one task of the second step."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._rows: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._attempts: dict[int, list[tuple[int, str]]] = {}
        self._lines: list[dict[str, object]] = []

    def records_by_partition(
        self, rows: pa.RecordBatch
    ) -> Iterator[tuple[TopicPartition, list[Record]]]:
        """Records by partition, in order. The first record of a partition locks the partition."""
        reports = rows.column("report")
        if reports.null_count < rows.num_rows:
            said = pc.is_valid(reports)
            self._add_reports(rows.filter(said))
            rows = rows.filter(pc.invert(said))
        now_ms = time.time_ns() // 1_000_000
        pieces: dict[int, list[Record]] = {}
        columns = (rows.column(name).to_pylist() for name in ("partition", "key", "value"))
        for partition, key, value in zip(*columns, strict=True):
            pieces.setdefault(partition, []).append(Record(0, now_ms, key, value))
        for partition, records in pieces.items():
            if partition not in self._rows:
                self._delivery.locks.lock(partition)
                self._rows[partition] = self._bytes[partition] = 0
            self._rows[partition] += len(records)
            self._bytes[partition] += sum(map(size_of, records))
            yield TopicPartition(self._delivery.topic, partition), records

    def _add_reports(self, rows: pa.RecordBatch) -> None:
        for partition, text in zip(
            rows.column("partition").to_pylist(), rows.column("report").to_pylist(), strict=True
        ):
            said = json.loads(text)
            if said["kind"] == ATTEMPT:
                self._attempts.setdefault(partition, []).append((said["rows"], said["path"]))
            else:
                self._lines.append(said)

    def failed(self, error: ProducerFailed) -> None:
        self._delivery.locks.record_failure(set(self._rows), error)

    def lines(self) -> list[dict[str, object]]:
        own = [
            line(
                FILE,
                path=str(partition),
                rows=self._rows.get(partition, 0),
                size=self._bytes.get(partition, 0),
                stats=json.dumps(sorted(attempts)),
            )
            for partition, attempts in self._attempts.items()
        ]
        return [*own, *self._lines]


def check_delivered(delivery: Delivery, written: Sequence[WrittenFile]) -> None:
    """Checks that one task wrote each partition, from the same attempts; raises `TriedAgain`."""
    partitions = sorted(int(each.path) for each in written)
    made_from = {each.stats for each in written}
    if written and (partitions != list(range(delivery.partitions)) or len(made_from) > 1):
        raise TriedAgain(
            f"{delivery.topic}: Spark repeated tasks after others had written; the batch "
            "runs again from its start"
        )
    for attempts in made_from:
        tasks = [task for task, _ in json.loads(attempts)]
        if len(tasks) != len(set(tasks)):
            raise TriedAgain(
                f"{delivery.topic}: the records of a task arrived twice; the batch runs again"
            )


def _reports(
    partitions: Sequence[int], task: int, lines: Sequence[dict[str, object]]
) -> pa.RecordBatch:
    count = len(lines)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(partitions, pa.int32()),
            pa.array([task << PLACE_BITS] * count, pa.int64()),
            pa.nulls(count, pa.binary()),
            pa.nulls(count, pa.binary()),
            pa.array([json.dumps(each) for each in lines], pa.string()),
        ],
        schema=PLACED,
    )


def _task_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
