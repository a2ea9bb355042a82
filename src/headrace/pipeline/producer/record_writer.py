"""Writes the records of one transaction to partitions, in batches.

The caller's thread builds the batches and the `BatchSender` sends them. Sequence numbers are
consecutive in each partition. The settings bound the memory for any number of records.
"""

from collections.abc import Iterable

from headrace.client.results import TopicPartition
from headrace.pipeline.producer.batch_sender import (
    BatchSender,
    Filling,
    Sequences,
    TransactionIdentity,
    transactional_batch,
)
from headrace.pipeline.producer.loop_thread import LoopThread
from headrace.pipeline.producer.settings import ProducerSettings
from headrace.records.record import Record


class RecordWriter:
    """Blocking; for one thread and one transaction."""

    def __init__(
        self,
        thread: LoopThread,
        appender: BatchSender,
        identity: TransactionIdentity,
        settings: ProducerSettings,
        sequences: Sequences,
    ) -> None:
        self.sequences = sequences
        self._thread = thread
        self._appender = appender
        self._identity = identity
        self._settings = settings
        self._filling: dict[TopicPartition, Filling] = {}

    def write(
        self, into: TopicPartition, records: Iterable[Record], batch_bytes: int | None = None
    ) -> None:
        """Adds records and sends each full batch; raises the error of an earlier batch.

        `batch_bytes`: for a topic whose batches must be smaller than in the settings.
        """
        filling = self._filling.setdefault(into, Filling())
        most = min(batch_bytes or self._settings.batch_bytes, self._settings.batch_bytes)
        for record in records:
            if not filling.takes(record, most):
                self._send(into, filling)
            filling.add(record)

    def flush(self) -> None:
        """Returns when every record is acknowledged."""
        for into, filling in self._filling.items():
            self._send(into, filling)
        self._thread.run(self._appender.flush())

    def stop(self) -> None:
        """Drops the batches that are in flight."""
        self._thread.run(self._appender.stop())

    def _send(self, into: TopicPartition, filling: Filling) -> None:
        records = filling.empty()
        if records:
            base = self.sequences.take(into, len(records))
            batch = transactional_batch(records, self._identity, base, self._settings)
            self._thread.run(self._appender.put(into, batch))
