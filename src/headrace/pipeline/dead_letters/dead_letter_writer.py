"""Writes a pipeline's bad records to its dead-letter topic, each exactly once, even after a crash.

All dead letters of a batch are written in one transaction. The transaction also commits the marker:
the batch's end offsets and its id, as offsets of the group `<pipeline>.dead-letters`. So either
all dead letters of a batch and its marker are committed, or none are. A journal in the checkpoint
directory records the same, because brokers delete the offsets of inactive groups.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from headrace.client.admin.offsets import delete_offsets
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.client.results import TopicPartition
from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.core.closed_on_exit import ClosedOnExit
from headrace.pipeline.dead_letters.staged_records import staged_letters
from headrace.pipeline.producer import (
    ProducerFailed,
    ProducerFenced,
    ProducerSettings,
    TransactionalProducer,
    initialized_producer,
    producer_settings,
)
from headrace.pipeline.producer.internal_topics import DEAD_LETTER_CONFIGS, ensure_topic
from headrace.pipeline.producer.transaction_outcome import ends_of
from headrace.pipeline.sinks.table_sink import BatchInfo, CommittedBatch
from headrace.pipeline.sinks.topic_batch_marker import last_marked, marker_of
from headrace.pipeline.sinks.topic_journal import TopicJournal, WriteIntent, resolve_last_commit
from headrace.pipeline.spec.flow import Flow

JOURNAL: Final = "dead-letters.json"


def marker_group(pipeline: str) -> str:
    return f"{pipeline}.dead-letters"


class DeadLetterWriter(ClosedOnExit):
    """The dead letters of one pipeline. A new writer fences every earlier one."""

    def __init__(
        self, topic: str, settings: ProducerSettings, pipeline: str, checkpoint: Path
    ) -> None:
        self.topic = topic
        self.group = marker_group(pipeline)
        self._settings = settings
        self._journal = TopicJournal(checkpoint / JOURNAL)
        self._producer: TransactionalProducer | None = None
        self._partitions = 0

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def last_marker(self, partitions: Sequence[TopicPartition]) -> CommittedBatch | None:
        """The last batch whose dead letters are in the topic, and the batch's end offsets.

        The open transaction of an earlier run has ended when this returns.
        """
        marker = last_marked(self.group, self._open_producer().offsets(self.group, partitions))
        return resolve_last_commit(marker, self._journal.read(), self._was_committed)

    def write(self, batch: BatchInfo, staged: Sequence[str]) -> int:
        """Writes the batch's bad records and its marker in one transaction; returns their number.

        Returns 0 for a batch that is already marked. After an error, no dead letters of the
        batch are committed, unless only the response to the commit was lost. `last_marker` then
        returns the outcome.
        """
        marker = self.last_marker(list(batch.ends))
        if not staged:
            return 0
        if marker is not None and marker.batch_id >= batch.batch_id:
            _check_own_marker(marker, batch)
            return 0
        producer = self._open_producer()
        partitions = self._partition_count(producer)
        done = CommittedBatch(batch.batch_id, batch.ends, f"{self.topic}@{batch.batch_id}")
        written = 0
        try:
            self._journal.intend(
                WriteIntent(done, producer.identity.producer_id, self._end_offsets(producer))
            )
            now_ms = time.time_ns() // 1_000_000
            for partition, letter in staged_letters(batch, staged, now_ms):
                producer.produce(self.topic, partition % partitions, [letter])
                written += 1
            producer.send_offsets(self.group, batch.ends, marker_of(batch.batch_id))
            producer.commit()
        except BaseException:
            # The next call initializes a new producer, which aborts the open transaction.
            self.close()
            raise
        self._journal.record(done)
        return written

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Deletes the marker and the journal, so that the pipeline starts from the beginning."""
        found = self._open_producer().offsets(self.group, partitions)

        async def delete(client: ClusterClient) -> None:
            timeout_s = self._settings.delivery_timeout_s
            await delete_offsets(client, self.group, list(found), timeout_s=timeout_s)

        if found:
            self._open_producer().call(delete)
        self._journal.forget()

    def _open_producer(self) -> TransactionalProducer:
        if self._producer is None:
            self._producer = initialized_producer(self._settings, self.group)
        return self._producer

    def _end_offsets(self, producer: TransactionalProducer) -> dict[TopicPartition, int]:
        timeout_s = self._settings.delivery_timeout_s
        try:
            return producer.call(
                lambda client: ends_of(client, self.topic, self._partitions, timeout_s)
            )
        except ClientError as error:
            raise ProducerFailed(f"the dead-letter topic {self.topic}: {error}") from error

    def _was_committed(self, intent: WriteIntent) -> bool:
        return self._open_producer().was_committed(intent.producer_id, intent.starts)

    def _partition_count(self, producer: TransactionalProducer) -> int:
        if not self._partitions:
            timeout_s = self._settings.delivery_timeout_s
            try:
                self._partitions = producer.call(
                    lambda client: ensure_topic(client, self.topic, DEAD_LETTER_CONFIGS, timeout_s)
                )
            except ClientError as error:
                raise ProducerFailed(f"the dead-letter topic {self.topic}: {error}") from error
        return self._partitions


def _check_own_marker(marker: CommittedBatch, batch: BatchInfo) -> None:
    """Raises `ProducerFenced` if the marker has other end offsets than the batch.

    A batch whose letters are in the topic is planned from its marker, so both have the same end
    offsets. A marker of another run would mean lost or duplicate dead letters.
    """
    if (marker.batch_id, dict(marker.offsets)) != (batch.batch_id, batch.ends):
        raise ProducerFenced(
            f"the dead letters of batch {batch.batch_id} of {batch.pipeline} are there, from other "
            "records: another run of the pipeline is at work. Make sure that it runs once only; "
            "then start it again: it resumes where the last commit ends"
        )


def open_dead_letters(flow: Flow, kafka: Mapping[str, str]) -> DeadLetterWriter:
    """The writer for the dead-letter topic of a flow."""
    assert flow.dead_letter is not None, "the spec names a topic for dead letters"
    checkpoint = Checkpoint(flow.checkpoint).path
    return DeadLetterWriter(flow.dead_letter.topic, producer_settings(kafka), flow.id, checkpoint)
