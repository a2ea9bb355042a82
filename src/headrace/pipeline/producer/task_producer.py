"""A task's part of a transaction that the driver begins and ends.

The task writes with the driver's producer id and epoch. No other task writes to its partitions, so
its sequence numbers begin with 0. It can neither commit nor abort.
"""

from headrace.client.client import ClusterClient
from headrace.pipeline.core.closed_on_exit import ClosedOnExit
from headrace.pipeline.producer.batch_sender import BatchSender, Sequences, TransactionIdentity
from headrace.pipeline.producer.loop_thread import LoopThread
from headrace.pipeline.producer.record_writer import RecordWriter
from headrace.pipeline.producer.settings import ProducerSettings
from headrace.pipeline.source.cluster_client import cluster_client


class TaskProducer(ClosedOnExit):
    """A context manager. After `writer.flush` returns, all records are in the log."""

    def __init__(self, settings: ProducerSettings, identity: TransactionIdentity) -> None:
        self._thread = LoopThread(f"producer {identity.transactional_id}")
        self._client = cluster_client(settings)
        appender = BatchSender(self._client, identity, settings)
        self.writer = RecordWriter(self._thread, appender, identity, settings, Sequences())

    def close(self) -> None:
        """Closes it. The transaction stays open: the driver ends it."""
        close_connections(self._thread, self._client, self.writer)


def close_connections(
    thread: LoopThread, client: ClusterClient, writer: RecordWriter | None
) -> None:
    """Stops the writer, and closes the client and the thread that both run on."""
    try:
        if writer is not None:
            writer.stop()
        thread.run(client.close())
    finally:
        thread.close()
