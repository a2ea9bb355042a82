"""A task's part of a transaction that the driver begins and ends.

The task writes with the driver's producer id and epoch. No other task writes to its partitions, so
its sequence numbers begin with 0. It can neither commit nor abort.
"""

from random import SystemRandom
from types import TracebackType
from typing import Self

from headrace.client.client import ClusterClient
from headrace.clock import SystemClock
from headrace.pipeline.producer.batch_sender import BatchSender, Sequences, TransactionIdentity
from headrace.pipeline.producer.loop_thread import LoopThread
from headrace.pipeline.producer.record_writer import RecordWriter
from headrace.pipeline.producer.settings import ProducerSettings


class TaskProducer:
    """A context manager. After `writer.flush` returns, all records are in the log."""

    def __init__(self, settings: ProducerSettings, identity: TransactionIdentity) -> None:
        self._thread = LoopThread(f"producer {identity.transactional_id}")
        self._client = cluster_client(settings)
        appender = BatchSender(self._client, identity, settings)
        self.writer = RecordWriter(self._thread, appender, identity, settings, Sequences())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.writer.stop()
            self._thread.run(self._client.close())
        finally:
            self._thread.close()


def cluster_client(settings: ProducerSettings) -> ClusterClient:
    return ClusterClient(
        settings.bootstrap_servers,
        client_id=settings.client_id,
        clock=SystemClock(),
        random=SystemRandom(),
        security=settings.security,
        request_timeout_s=settings.request_timeout_s,
    )
