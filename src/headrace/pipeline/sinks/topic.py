"""A topic as a sink: every batch is one transaction.

With the records goes the marker: the batch's end offsets and its id, committed for the group
`<pipeline>.sink`. Tasks make files of records; the driver, which alone writes to the topic, sends
those that are reported, in their order, and commits. So a task may be killed, run twice or come
late, and a driver that is killed leaves a transaction that the next run aborts.
"""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.client.errors import ClientError
from headrace.client.outcomes import TopicPartition
from headrace.pipeline import journal
from headrace.pipeline.marker import last_marked, marker_of
from headrace.pipeline.producer import (
    CommitUncertain,
    ProducerFailed,
    ProducerSettings,
    TransactionalProducer,
)
from headrace.pipeline.sinks.outbox import Encoding, OutboxTask
from headrace.pipeline.sinks.table import (
    BatchInfo,
    Committed,
    MaintenanceReport,
    TaskWriter,
    WrittenFile,
)
from headrace.pipeline.source.admin import LogAdmin
from headrace.pipeline.topics import ensure_topic
from headrace.records.record import Record

OUTBOX: Final = "outbox"
JSON: Final = Encoding()
ROWS_AT_A_TIME: Final = 2000
NO_CONFIGS: Final[Mapping[str, str]] = {}


def sink_group(pipeline: str) -> str:
    return f"{pipeline}.sink"


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """A topic sink as its spec describes it."""

    topic: str
    producer: ProducerSettings
    checkpoint: Path
    """Spark's workers must see it under the same path."""
    encoding: Encoding = JSON


class TopicSink:
    """One topic, written by one pipeline. It looks until it is told to write."""

    def __init__(self, settings: TopicSettings) -> None:
        self._settings = settings
        self._producer: TransactionalProducer | None = None
        self._partitions = 0

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def last_commit(self, pipeline: str, partitions: Sequence[TopicPartition]) -> Committed | None:
        """What is in the topic; None if the pipeline never wrote to it."""
        group = sink_group(pipeline)
        known = journal.read_journal(self._settings.checkpoint)
        wanted = self._marked(partitions)
        if self._producer is None:
            admin = LogAdmin(self._settings.producer.reading())
            found = {each: at for each, at in admin.committed(group).items() if each in wanted}
            marker = last_marked(group, found)
            if known.done is not None and (marker is None or marker.batch_id < known.done.batch_id):
                return known.done  # the marker of the last commit may not be readable yet
            return marker
        marker = last_marked(group, self._producer.offsets(group, wanted))
        return journal.settled(marker, known, time.time())

    def prepare(self, schema: pa.Schema) -> None:
        """Makes the topic if it is missing, and checks that rows can become records."""
        self._settings.encoding.check(schema)

    def write_task(self, batch: BatchInfo) -> TaskWriter:
        """From here on the topic is this run's: whoever wrote to it before is shut out."""
        first = self._producer is None
        producer = self._take(batch.pipeline)
        if first:
            held = self.last_commit(batch.pipeline, list(batch.ends))
            if (held.batch_id if held is not None else -1) != batch.batch_id - 1:
                # Not an error: what an earlier run had under way is decided only now.
                raise CommitUncertain(f"batch {batch.batch_id} is planned anew")
        self._partitions = self._partition_count(producer)
        outbox = self._settings.checkpoint / OUTBOX
        shutil.rmtree(outbox, ignore_errors=True)
        folder = outbox / str(batch.batch_id)
        folder.mkdir(parents=True)
        return OutboxTask(str(folder), self._settings.encoding, self._partitions)

    def commit(self, batch: BatchInfo, written: Sequence[WrittenFile]) -> Committed:
        """Sends the files' records and the marker in one transaction, once."""
        producer = self._take(batch.pipeline)
        held = self.last_commit(batch.pipeline, list(batch.ends))
        if held is not None and held.batch_id >= batch.batch_id:
            return held
        folder = self._settings.checkpoint / OUTBOX / str(batch.batch_id)
        journal.intend(self._settings.checkpoint, batch.batch_id)
        try:
            for file in written:
                for partition, records in _records(folder / file.path):
                    producer.produce(self._settings.topic, partition, records)
            ends = batch.ends or {TopicPartition(self._settings.topic, 0): batch.batch_id}
            producer.send_offsets(sink_group(batch.pipeline), ends, marker_of(batch.batch_id))
            producer.commit()
        except BaseException:
            # The next batch takes the transactional id anew, which aborts what is open.
            self.close()
            raise
        done = Committed(batch.batch_id, batch.ends, f"{self._settings.topic}@{batch.batch_id}")
        journal.record(self._settings.checkpoint, done)
        shutil.rmtree(self._settings.checkpoint / OUTBOX, ignore_errors=True)
        return done

    def compact(self) -> MaintenanceReport:
        """A topic is looked after by its brokers."""
        return MaintenanceReport()

    def vacuum(self, older_than_hours: float) -> MaintenanceReport:
        """A topic is looked after by its brokers."""
        return MaintenanceReport()

    def _marked(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """Where the marker is: with the source's partitions, or, if it has none, with the topic."""
        return partitions or [TopicPartition(self._settings.topic, 0)]

    def _take(self, pipeline: str) -> TransactionalProducer:
        if self._producer is None:
            producer = TransactionalProducer(self._settings.producer, sink_group(pipeline))
            try:
                producer.init()
            except BaseException:
                producer.close()
                raise
            self._producer = producer
        return self._producer

    def _partition_count(self, producer: TransactionalProducer) -> int:
        timeout_s = self._settings.producer.delivery_timeout_s
        try:
            return producer.call(
                lambda client: ensure_topic(client, self._settings.topic, NO_CONFIGS, timeout_s)
            )
        except ClientError as error:
            raise ProducerFailed(f"the topic {self._settings.topic}: {error}") from error


def _records(path: Path) -> Iterator[tuple[int, list[Record]]]:
    """A file's records by partition, a piece at a time."""
    now_ms = time.time_ns() // 1_000_000
    with pq.ParquetFile(path) as file:
        for rows in file.iter_batches(batch_size=ROWS_AT_A_TIME):
            pieces: dict[int, list[Record]] = {}
            columns = (column.to_pylist() for column in rows.columns)
            for partition, key, value in zip(*columns, strict=True):
                pieces.setdefault(partition, []).append(Record(0, now_ms, key, value))
            yield from pieces.items()
