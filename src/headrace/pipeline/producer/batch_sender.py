"""Sends the batches of one producer to partitions: in order, each once.

A partition has one request in flight at a time, so a retried batch cannot overtake the next one.
Different partitions do not wait for each other. The leader recognizes a duplicate batch by its
producer id, epoch and sequence. The size of waiting batches is bounded: if the caller produces
faster than the cluster accepts, it has to wait.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from headrace.client.client import ClusterClient, ToLeader
from headrace.client.errors import ClientError, DeadlineExceeded, code_of_number
from headrace.client.results import TopicPartition
from headrace.pipeline.producer.errors import NotAcknowledged, ProducerFailed, failure
from headrace.pipeline.producer.settings import ProducerSettings
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.batch_header import SEQUENCE_MASK
from headrace.records.record import Record, build_batch

ALL_IN_SYNC: Final = -1
BY_NAME: Final = 12  # Up to this version, Produce identifies topics by name.
ADDED_BEFORE: Final = 11  # Up to this version, partitions are added to a transaction beforehand.
RECORD_OVERHEAD_BYTES: Final = 24
HEADER_OVERHEAD_BYTES: Final = 4


class TransactionIdentity(NamedTuple):
    """The identity with which batches are written. Tasks that share a transaction share it."""

    transactional_id: str
    producer_id: int
    epoch: int
    implicit: bool
    """Whether a write to a partition adds it to the transaction (KIP-890)."""


def size_of(record: Record) -> int:
    """The approximate size of a record in a batch."""
    size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += HEADER_OVERHEAD_BYTES + len(name) + len(value or b"")
    return size


class Filling:
    """The records of a partition's next batch, numbered from 0."""

    __slots__ = ("_records", "_size")

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._size = 0

    def takes(self, record: Record, batch_bytes: int) -> bool:
        return not self._records or self._size + size_of(record) <= batch_bytes

    def add(self, record: Record) -> None:
        self._size += size_of(record)
        self._records.append(record._replace(offset=len(self._records)))

    def empty(self) -> list[Record]:
        records, self._records, self._size = self._records, [], 0
        return records


class Sequences:
    """The next sequence number of each partition, for one producer id and epoch."""

    def __init__(self) -> None:
        self._next: dict[TopicPartition, int] = {}

    def take(self, partition: TopicPartition, count: int) -> int:
        base = self._next.get(partition, 0)
        self._next[partition] = (base + count) & SEQUENCE_MASK
        return base


def transactional_batch(
    records: list[Record],
    identity: TransactionIdentity,
    base_sequence: int,
    settings: ProducerSettings,
) -> bytes:
    return build_batch(
        records,
        codec=settings.codec,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=base_sequence,
        is_transactional=True,
    )


class BatchSender:
    """Runs on one event loop; after a failure it accepts no more batches."""

    def __init__(
        self,
        client: ClusterClient,
        identity: TransactionIdentity,
        settings: ProducerSettings,
        join: Callable[[TopicPartition], Awaitable[None]] | None = None,
    ) -> None:
        self._client = client
        self._identity = identity
        self._settings = settings
        self._join = join
        self._waiting: dict[TopicPartition, deque[bytes]] = {}
        self._lanes: dict[TopicPartition, asyncio.Task[None]] = {}
        self._bytes = 0
        self._less = asyncio.Condition()
        self._failed: BaseException | None = None

    async def put(self, partition: TopicPartition, batch: bytes) -> None:
        """Adds a batch as soon as there is room; raises the error of an earlier batch."""
        async with self._less:
            await self._less.wait_for(
                lambda: self._failed is not None or self._bytes < self._settings.buffer_bytes
            )
        self.check()
        self._bytes += len(batch)
        self._waiting.setdefault(partition, deque()).append(batch)
        if partition not in self._lanes:
            self._lanes[partition] = asyncio.create_task(self._drain(partition))

    async def flush(self) -> None:
        """Returns when all batches are acknowledged; raises if one failed."""
        while self._lanes:
            await asyncio.wait(list(self._lanes.values()))
        self.check()

    async def stop(self) -> None:
        """Drops the batches that are in flight."""
        lanes = list(self._lanes.values())
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)

    def check(self) -> None:
        if self._failed is not None:
            raise self._failed

    async def _drain(self, partition: TopicPartition) -> None:
        waiting = self._waiting[partition]
        try:
            while waiting and self._failed is None:
                if self._join is not None:
                    await self._join(partition)
                batch = waiting.popleft()
                await self._send(partition, batch)
                async with self._less:
                    self._bytes -= len(batch)
                    self._less.notify_all()
        except BaseException as error:
            self._failed = self._failed or error
            async with self._less:
                self._less.notify_all()
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            del self._lanes[partition]

    async def _send(self, partition: TopicPartition, batch: bytes) -> None:
        settings = self._settings
        request = ProduceRequest(
            transactional_id=self._identity.transactional_id,
            acks=ALL_IN_SYNC,
            timeout_ms=int(settings.request_timeout_s * 1000),
            topic_data=[
                TopicProduceData(
                    name=partition.topic,
                    partition_data=[PartitionProduceData(index=partition.partition, records=batch)],
                )
            ],
        )
        what = f"a batch of {len(batch)} bytes for {partition}"
        try:
            answer = await self._client.send(
                request,
                ProduceResponse,
                to=ToLeader(*partition),
                timeout_s=settings.delivery_timeout_s,
                at_most=BY_NAME if self._identity.implicit else ADDED_BEFORE,
                code_of=lambda got: _partition(got).error_code,
            )
        except ClientError as error:
            retriable = error.retriable or isinstance(error, DeadlineExceeded)
            kind = NotAcknowledged if retriable else ProducerFailed
            raise kind(f"{what} was not acknowledged: {error}") from error
        code = code_of_number(_partition(answer).error_code)
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            said = _partition(answer).error_message
            raise failure(code, f"{what}" + (f" ({said})" if said else ""))


def _partition(answer: ProduceResponse) -> PartitionProduceResponse:
    return answer.responses[0].partition_responses[0]
