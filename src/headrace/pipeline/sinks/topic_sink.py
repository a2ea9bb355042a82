"""A topic as a sink: every batch is one transaction.

The driver begins the transaction, and tasks write records in it (`topic_delivery`). The driver then
adds the marker: the batch's end offsets and id, as offsets of the group `<pipeline>.sink`. It
commits only if each partition was written by exactly one attempt of one task. A killed driver
leaves an open transaction, which the next run aborts; that also fences its remaining tasks.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from headrace.client.admin.configs import Resource, ResourceKind, describe_configs
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.client.results import Refusal, TopicPartition
from headrace.pipeline.producer import (
    CommitUncertain,
    ProducerFailed,
    ProducerSettings,
    TransactionalProducer,
    initialized_producer,
)
from headrace.pipeline.producer.internal_topics import DEAD_LETTER_CONFIGS, ensure_topic
from headrace.pipeline.producer.transaction_outcome import ends_of
from headrace.pipeline.sinks.partition_locks import CLAIMS, PartitionLocks
from headrace.pipeline.sinks.record_encoding import Encoding
from headrace.pipeline.sinks.table_sink import (
    BatchInfo,
    CommittedBatch,
    MaintenanceReport,
    WrittenFile,
)
from headrace.pipeline.sinks.topic_batch_marker import last_marked, marker_of
from headrace.pipeline.sinks.topic_delivery import Delivery, check_delivered
from headrace.pipeline.sinks.topic_journal import (
    JournalEntry,
    TopicJournal,
    WriteIntent,
    resolve_last_commit,
)
from headrace.pipeline.source.admin import LogAdmin
from headrace.records.record import Record

JSON: Final = Encoding()
NO_CONFIGS: Final[Mapping[str, str]] = {}
JOURNAL: Final = "commits.json"
ROWS_PER_TASK: Final = 20_000
TASKS_OF_UNKNOWN: Final = 16
"""The limit if the number of rows in the batch is not known."""
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
NO_LIMIT: Final = 2**31 - 1


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
    on_error: str = "fail"
    """The action for records that are too large for the topic."""
    dead_letter_topic: str | None = None
    """The dead-letter topic, written in the same transaction."""


class TopicSink:
    """One topic, written by one pipeline. It opens a producer only when it writes."""

    def __init__(self, settings: TopicSettings) -> None:
        self._settings = settings
        self._journal = TopicJournal(settings.checkpoint / JOURNAL)
        self._producer: TransactionalProducer | None = None
        self._delivery: Delivery | None = None
        self._max_record_bytes: int | None = None
        self._dead_letter_partitions = 0

    def close(self) -> None:
        """Aborts an open transaction, so that readers of the topic do not wait for its timeout."""
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                with suppress(ProducerFailed):
                    producer.abort()
            finally:
                producer.close()

    def last_commit(
        self, pipeline: str, partitions: Sequence[TopicPartition]
    ) -> CommittedBatch | None:
        """The last batch in the topic; None if the pipeline never wrote to it."""
        group = sink_group(pipeline)
        known = self._journal.read()
        wanted = partitions or [self._own_marker]
        if self._producer is None:
            admin = LogAdmin(self._settings.producer.reading())
            found = {each: at for each, at in admin.committed(group).items() if each in wanted}
            return _later_commit(last_marked(group, found), known)
        marker = last_marked(group, self._producer.offsets(group, wanted))
        return resolve_last_commit(marker, known, self._was_committed)

    def writers(self) -> dict[str, set[str]]:
        """Empty: a pipeline's group does not record the topic that the pipeline wrote to."""
        return {}

    def prepare(self, schema: pa.Schema) -> None:
        """Checks that rows can become records."""
        self._settings.encoding.check(schema)

    def write_task(self, batch: BatchInfo) -> Delivery:
        """Begins the batch's transaction; tasks must not write before.

        From here on this run owns the topic: it fences every earlier run of the pipeline.
        """
        first = self._producer is None
        producer = self._open_producer(batch.pipeline)
        if first:
            held = self.last_commit(batch.pipeline, list(batch.ends))
            if (held.batch_id if held is not None else -1) != batch.batch_id - 1:
                # Not an error: only now is it known whether an earlier run's transaction committed.
                raise CommitUncertain(f"batch {batch.batch_id} is planned again")
        settings, timeout_s = self._settings, self._settings.producer.delivery_timeout_s
        topic = settings.topic
        try:
            count = producer.call(lambda c: ensure_topic(c, topic, NO_CONFIGS, timeout_s))
            limit = self._max_batch_bytes(producer)
            aside = self._dead_letter_ends(producer)
            identity = producer.begin(TopicPartition(topic, at) for at in range(count))
            starts = producer.call(lambda c: ends_of(c, topic, count, timeout_s)) | aside
        except ClientError as error:
            raise ProducerFailed(f"the topic {topic}: {error}") from error
        self._journal.intend(
            WriteIntent(self._committed_batch(batch), identity.producer_id, starts)
        )
        batch_bytes = min(settings.producer.batch_bytes, limit * 9 // 10)
        self._delivery = Delivery(
            topic=topic,
            partitions=count,
            tasks=_tasks(batch, count),
            batch_id=batch.batch_id,
            identity=identity,
            settings=settings.producer._replace(batch_bytes=batch_bytes),
            locks=PartitionLocks.create(settings.checkpoint, f"{batch.batch_id}-{identity.epoch}"),
            encoding=settings.encoding,
            max_record_bytes=limit,
            on_error=settings.on_error,
        )
        return self._delivery

    def write_dead_letters(self, records: Iterable[tuple[int, Record]]) -> None:
        """Adds dead letters to the transaction. Each record comes with a number that selects its
        partition."""
        producer, topic = self._producer, self._settings.dead_letter_topic
        assert producer is not None, "a transaction was begun"
        assert topic is not None, "the spec names a topic for dead letters"
        for number, record in records:
            producer.produce(topic, number % self._dead_letter_partitions, [record])

    def _dead_letter_ends(self, producer: TransactionalProducer) -> dict[TopicPartition, int]:
        """The end offsets of the dead-letter topic: a batch may consist of dead letters only."""
        topic, timeout_s = (
            self._settings.dead_letter_topic,
            self._settings.producer.delivery_timeout_s,
        )
        if topic is None:
            return {}
        if not self._dead_letter_partitions:
            self._dead_letter_partitions = producer.call(
                lambda client: ensure_topic(client, topic, DEAD_LETTER_CONFIGS, timeout_s)
            )
        count = self._dead_letter_partitions
        return producer.call(lambda client: ends_of(client, topic, count, timeout_s))

    def commit(self, batch: BatchInfo, written: Sequence[WrittenFile]) -> CommittedBatch:
        """Adds the marker to the tasks' records and commits the transaction, once."""
        producer = self._open_producer(batch.pipeline)
        held = self.last_commit(batch.pipeline, list(batch.ends))
        if held is not None and held.batch_id >= batch.batch_id:
            return held
        delivery, self._delivery = self._delivery, None
        try:
            if delivery is not None:
                check_delivered(delivery, written)
            ends = batch.ends or {self._own_marker: batch.batch_id}
            producer.send_offsets(sink_group(batch.pipeline), ends, marker_of(batch.batch_id))
            producer.commit()
        except CommitUncertain:
            # A new epoch might abort a transaction that is being committed: the next batch checks.
            self._producer = None
            producer.close()
            raise
        except BaseException:
            self.close()
            raise
        done = self._committed_batch(batch)
        self._journal.record(done)
        shutil.rmtree(self._settings.checkpoint / CLAIMS, ignore_errors=True)
        return done

    def compact(self) -> MaintenanceReport:
        """Does nothing: the brokers maintain a topic."""
        return MaintenanceReport()

    def vacuum(self, older_than_hours: float) -> MaintenanceReport:
        """Does nothing: the brokers maintain a topic."""
        return MaintenanceReport()

    @property
    def _own_marker(self) -> TopicPartition:
        """The partition that holds the marker of a batch that was not read from partitions."""
        return TopicPartition(self._settings.topic, 0)

    def _committed_batch(self, batch: BatchInfo) -> CommittedBatch:
        return CommittedBatch(
            batch.batch_id, batch.ends, f"{self._settings.topic}@{batch.batch_id}"
        )

    def _open_producer(self, pipeline: str) -> TransactionalProducer:
        if self._producer is None:
            self._producer = initialized_producer(self._settings.producer, sink_group(pipeline))
        return self._producer

    def _was_committed(self, intent: WriteIntent) -> bool:
        assert self._producer is not None, "an earlier run's transaction has ended"
        return self._producer.was_committed(intent.producer_id, intent.starts)

    def _max_batch_bytes(self, producer: TransactionalProducer) -> int:
        """The largest batch that the topic accepts, if this user may read its configuration."""
        if self._max_record_bytes is None:
            self._max_record_bytes = producer.call(self._read_max_message_bytes)
        return self._max_record_bytes

    async def _read_max_message_bytes(self, client: ClusterClient) -> int:
        topic = Resource(ResourceKind.TOPIC, self._settings.topic)
        timeout_s = self._settings.producer.delivery_timeout_s
        found = await describe_configs(
            client, [topic], timeout_s=timeout_s, names=[MAX_MESSAGE_BYTES]
        )
        entries = found.get(topic)
        if entries is None or isinstance(entries, Refusal):
            return NO_LIMIT
        values = [
            int(each.value) for each in entries if each.name == MAX_MESSAGE_BYTES and each.value
        ]
        return next(iter(values), NO_LIMIT)


def _later_commit(marker: CommittedBatch | None, known: JournalEntry) -> CommittedBatch | None:
    """The later of marker and journal: the marker of the last commit may not be readable yet."""
    done = known.done
    if done is not None and (marker is None or marker.batch_id < done.batch_id):
        return done
    return marker


def _tasks(batch: BatchInfo, partitions: int) -> int:
    """The number of writing tasks: few for few records, because each has a fixed cost."""
    if not batch.ranges:
        return min(partitions, TASKS_OF_UNKNOWN)
    wanted = -(-sum(each.size for each in batch.ranges) // ROWS_PER_TASK)
    return max(1, min(partitions, wanted))
