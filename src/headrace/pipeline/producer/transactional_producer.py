"""A producer whose transactions contain records and a group's offsets, atomically.

`init` takes over the transactional id. The previous producer with this id can no longer write, and
its open transaction is aborted. After that, `produce`, `send_offsets` and `commit` make a
transaction. After an error the transaction is lost; `abort` ends it and makes the producer usable
again.

Tasks may also write in the transaction: `begin` returns the identity that they use.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TypeVar

from headrace.client.admin.offsets import CommittedOffset
from headrace.client.client import ClusterClient
from headrace.client.results import TopicPartition
from headrace.pipeline.core.closed_on_exit import ClosedOnExit
from headrace.pipeline.producer.batch_sender import BatchSender, Sequences, TransactionIdentity
from headrace.pipeline.producer.errors import ProducerFailed
from headrace.pipeline.producer.loop_thread import LoopThread
from headrace.pipeline.producer.record_writer import RecordWriter
from headrace.pipeline.producer.settings import ProducerSettings
from headrace.pipeline.producer.task_producer import close_connections
from headrace.pipeline.producer.transaction_coordinator_client import TransactionCoordinatorClient
from headrace.pipeline.producer.transaction_outcome import was_committed
from headrace.pipeline.source.cluster_client import cluster_client
from headrace.records.record import Record

T = TypeVar("T")


def initialized_producer(
    settings: ProducerSettings, transactional_id: str
) -> "TransactionalProducer":
    """A producer that has taken over the transactional id, and that the caller must close."""
    producer = TransactionalProducer(settings, transactional_id)
    try:
        producer.init()
    except BaseException:
        producer.close()
        raise
    return producer


class TransactionalProducer(ClosedOnExit):
    """Blocking; for one thread. As a context manager, it closes the producer without a commit."""

    def __init__(self, settings: ProducerSettings, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self._settings = settings
        self._thread = LoopThread(f"producer {transactional_id}")
        self._client = cluster_client(settings)
        self._coordination = TransactionCoordinatorClient(self._client, settings, transactional_id)
        self._identity: TransactionIdentity | None = None
        self._writer: RecordWriter | None = None
        self._open = False

    def close(self) -> None:
        """Closes it. An open transaction stays open until the next `init` or its timeout."""
        close_connections(self._thread, self._client, self._writer)

    @property
    def identity(self) -> TransactionIdentity:
        """The identity that writes the transaction; raises before `init`."""
        if self._identity is None:
            raise ProducerFailed(f"{self.transactional_id}: init comes first")
        return self._identity

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and has not ended."""
        return self._open

    def init(self) -> None:
        """Takes over the transactional id; returns when its earlier transactions have ended."""
        if self._writer is not None:
            self._writer.stop()
        self._identity = self._writer = None
        self._ready(self._thread.run(self._coordination.init()), Sequences())

    def begin(self, partitions: Iterable[TopicPartition]) -> TransactionIdentity:
        """Begins a transaction in which tasks write to these partitions, one task to each.

        The tasks' sequence numbers begin with 0, so the epoch must be new. Brokers with the second
        protocol raise the epoch in every transaction. Other brokers raise it on request, which also
        fences a remaining task of the previous transaction.
        """
        if self._open or not self.identity.implicit:
            self.init()
        identity = self._begun()
        if not identity.implicit:
            self._thread.run(self._coordination.add_partitions(identity, partitions))
        return identity

    def produce(
        self,
        topic: str,
        partition: int,
        records: Iterable[Record],
        *,
        batch_bytes: int | None = None,
    ) -> None:
        """Adds records to the open transaction; the offsets in the records are ignored.

        The producer sends a batch when it is full, and the rest with `commit`. So a later call may
        raise the error of an earlier one. Memory is bounded: `records` may be a generator of any
        length.
        """
        self._begun()
        self._writing().write(TopicPartition(topic, partition), records, batch_bytes)

    def send_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
    ) -> None:
        """Adds a group's positions to the transaction."""
        identity = self._begun()
        self._thread.run(self._coordination.send_offsets(identity, group, offsets, metadata))

    def offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        """A group's positions, once no open transaction can change them."""
        return self._thread.run(self._coordination.offsets(group, list(partitions)))

    def commit(self) -> None:
        """Makes the transaction visible, once all its records are acknowledged.

        After `CommitUncertain`, call `init` and check the records and offsets that the transaction
        would have written.
        """
        if not self._open:
            return
        writer = self._writing()
        writer.flush()
        renewed = self._thread.run(self._coordination.commit(self.identity))
        same = renewed == self._identity
        self._ready(renewed, writer.sequences if same else Sequences())

    def abort(self) -> None:
        """Aborts the open transaction, if there is one."""
        if self._open:
            # Taking over the id again ends the transaction in any state, and resets its sequences.
            self.init()

    def was_committed(self, producer_id: int, starts: Mapping[TopicPartition, int]) -> bool:
        """Whether the first transaction of that producer after `starts` was committed.

        The transaction must have ended. Raises `ProducerFailed` if the log does not show it.
        """
        timeout_s = self._settings.delivery_timeout_s
        return self.call(lambda client: was_committed(client, producer_id, starts, timeout_s))

    def call(self, ask: Callable[[ClusterClient], Coroutine[object, object, T]]) -> T:
        """Runs another request over this producer's connections; raises `ClientError`."""
        return self._thread.run(ask(self._client))

    def _begun(self) -> TransactionIdentity:
        identity = self.identity
        self._open = True
        return identity

    def _ready(self, identity: TransactionIdentity, sequences: Sequences) -> None:
        async def join(partition: TopicPartition) -> None:
            await self._coordination.add_partitions(identity, [partition])

        appender = BatchSender(
            self._client, identity, self._settings, None if identity.implicit else join
        )
        self._identity = identity
        self._writer = RecordWriter(self._thread, appender, identity, self._settings, sequences)
        self._open = False

    def _writing(self) -> RecordWriter:
        if self._writer is None:
            raise ProducerFailed(f"{self.transactional_id}: init comes first")
        return self._writer
