"""Writes the markers that end transactions, into the partitions that this broker leads.

Guarantees: a transaction is reported complete only when every one of its partitions has the marker,
on disk where a flush is promised; a partition that cannot take it now is tried again until it
can; one that is gone needs none.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from headrace.cluster.topology import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from headrace.coordinator.errors import CoordinatorError
from headrace.coordinator.turn import Producer
from headrace.protocol.errors import ErrorCode
from headrace.records.control import end_txn_marker
from headrace.replication.leader import Leader
from headrace.storage.errors import InvalidProducerEpoch, StorageError
from headrace.storage.producers import NO_OFFSET, Origin
from headrace.transactions.markers import WriteMarkers
from headrace.transactions.transaction import MAX_EPOCH, V2, Partition

if TYPE_CHECKING:
    from headrace.broker.node import Broker

log = logging.getLogger(__name__)

RETRY_S: Final = 0.1

# The partition knows a newer epoch of the producer or of its coordinator. A marker of this
# transaction will never be accepted there, and nothing of it can follow.
_TOO_LATE: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
)
# The shard has moved or is loading: it will ask again.
_ASKS_AGAIN: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def append_marker(
    broker: Broker,
    leader: Leader,
    producer: Producer,
    *,
    commit: bool,
    coordinator_epoch: int,
    version: int,
) -> None:
    """One marker into one partition; raises StorageError.

    With version 2 of the protocol a marker has an epoch that its transaction did not have, unless
    it is repeated: one with the transaction's own epoch is a late message of an earlier end.
    """
    now_ms = broker.clock.wall_ms()
    if version >= V2 and producer.epoch != MAX_EPOCH:
        known = leader.log.producers.get(producer.producer_id)
        if (
            known is not None
            and known.epoch == producer.epoch
            and known.txn_first_offset != NO_OFFSET
        ):
            raise InvalidProducerEpoch(
                f"the marker for producer {producer.producer_id} has epoch {producer.epoch}, "
                "which is that of the open transaction and not the one after it"
            )
    marker = end_txn_marker(
        commit=commit,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=now_ms,
    )
    leader.append(memoryview(bytearray(marker)), now_ms, Origin.COORDINATOR)
    if leader.topic == GROUP_METADATA_TOPIC:
        broker.groups.end_transaction(leader.index, producer, committed=commit)


class _Job:
    """A transaction whose markers are being written."""

    __slots__ = ("index", "missing", "wanted")

    def __init__(self, index: int, wanted: WriteMarkers) -> None:
        self.index = index  # of the coordinator's partition
        self.wanted = wanted
        self.missing: list[Partition] = sorted(wanted.partitions)


class TransactionMarkers:
    """Performs `WriteMarkers` and tells the coordinator when they are done."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._jobs: dict[tuple[int, str], _Job] = {}

    def perform(self, index: int, wanted: WriteMarkers) -> None:
        job = _Job(index, wanted)
        self._jobs[index, wanted.transactional_id] = job
        self._write(job)

    def _write(self, job: _Job) -> None:
        if self._broker.stopping or self._superseded(job):
            return
        leaders: list[Leader] = []
        missing = []
        for partition in job.missing:
            leader = self._mark(job, partition)
            if isinstance(leader, Leader):
                leaders.append(leader)
            elif leader:
                missing.append(partition)
        job.missing = missing
        flushes = [self._broker.flusher.flush(leader) for leader in leaders if leader.flush_pending]
        if flushes:
            # A marker that a crash may undo is not written yet.
            done = asyncio.gather(*flushes, return_exceptions=True)
            done.add_done_callback(lambda _: self._go_on(job))
        else:
            self._go_on(job)

    def _mark(self, job: _Job, partition: Partition) -> Leader | bool:
        """The leader that has the marker now; else whether it is still to be written."""
        broker = self._broker
        wanted = job.wanted
        topic, index = partition
        leader = broker.partitions.find(topic, index)
        if not isinstance(leader, Leader):
            # Another broker may lead it; a deleted topic needs no marker.
            return topic in broker.metadata.image.topics
        try:
            append_marker(
                broker,
                leader,
                Producer(wanted.producer_id, wanted.epoch),
                commit=wanted.commit,
                coordinator_epoch=self._coordinator_epoch(job.index),
                version=wanted.version,
            )
        except StorageError as error:
            too_late = error.code in _TOO_LATE
            log.log(
                logging.ERROR if too_late else logging.WARNING,
                "a transaction's marker was refused"
                if too_late
                else "a transaction's marker was not written; it is tried again",
                extra={"topic": topic, "partition": index, "error": str(error)},
            )
            return not too_late
        return leader

    def _coordinator_epoch(self, index: int) -> int:
        leader = self._broker.partitions.find(TRANSACTION_STATE_TOPIC, index)
        return leader.epoch if isinstance(leader, Leader) else 0

    def _go_on(self, job: _Job) -> None:
        if job.missing:
            self._retry(job)
        elif not self._superseded(job):
            done = self._broker.transactions.run_partition(
                job.index, lambda shard, now_ms: shard.complete(job.wanted, now_ms)
            )
            if done.done():
                self._completed(job, done)
            else:
                done.add_done_callback(lambda _: self._completed(job, done))

    def _completed(self, job: _Job, done: asyncio.Future[None]) -> None:
        if done.cancelled() or self._superseded(job):
            return
        error = done.exception()
        if isinstance(error, CoordinatorError) and error.code not in _ASKS_AGAIN:
            self._retry(job)
        else:
            del self._jobs[job.index, job.wanted.transactional_id]

    def _retry(self, job: _Job) -> None:
        if not self._broker.stopping:
            self._broker.timers.call_later(RETRY_S, lambda: self._write(job))

    def _superseded(self, job: _Job) -> bool:
        """A shard that was loaded anew has asked for the same, or for a later transaction."""
        return self._jobs.get((job.index, job.wanted.transactional_id)) is not job
