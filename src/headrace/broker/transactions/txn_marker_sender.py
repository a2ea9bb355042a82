"""Writes the markers that end transactions, through the leaders of their partitions.

Guarantees: a transaction is reported complete only when every one of its partitions has committed
the marker. A marker that a partition cannot accept now is retried until it can; a deleted partition
needs none. Each other broker gets one request at a time, with the markers of all transactions that
wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.broker.partitions.commit_wait import when_committed
from headrace.broker.transactions.txn_marker_append import AppendMarkerHost, append_marker
from headrace.broker.transactions.txn_marker_queue import TxnMarkerQueue, TxnMarkerQueueHost
from headrace.cluster.topology import NO_LEADER, TRANSACTION_STATE_TOPIC
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.marker_request import TransactionTimedOut, WriteMarkers
from headrace.coordinator.transaction.transaction import Partition
from headrace.limited_log import LimitedLog
from headrace.protocol.errors import ErrorCode
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import StorageError

if TYPE_CHECKING:
    from headrace.broker.metadata.standalone_metadata import MetadataView
    from headrace.broker.partitions.flusher import Flusher
    from headrace.broker.runtime.timers import Timer
    from headrace.coordinator.common.result import CoordinatorResult
    from headrace.coordinator.transaction.transaction_shard import TransactionShard

R = TypeVar("R")

log = logging.getLogger(__package__)

RETRY_S: Final = 0.1

# The partition has a newer epoch of the producer or of its coordinator. It will never accept a
# marker of this transaction, and no record of the transaction can follow.
_TOO_LATE: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
)


class MarkerCoordinator(Protocol):
    """The transaction coordinator, which waits for the markers."""

    def run_partition(
        self, index: int, decide: Callable[[TransactionShard, int], CoordinatorResult[R]]
    ) -> asyncio.Future[R]: ...


class Leaders(Protocol):
    """The partitions that this broker leads."""

    def find(self, topic: str, index: int) -> SoleLeader | ErrorCode: ...


class RetryTimers(Protocol):
    """Calls back later."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer: ...


class TxnMarkerSenderHost(AppendMarkerHost, TxnMarkerQueueHost, Protocol):
    """The part of the broker that markers use."""

    node_id: int
    flusher: Flusher

    @property
    def metadata(self) -> MetadataView: ...

    @property
    def partitions(self) -> Leaders: ...

    @property
    def timers(self) -> RetryTimers: ...

    @property
    def transactions(self) -> MarkerCoordinator: ...


class MarkerJob:
    """A transaction whose markers are being written."""

    __slots__ = ("index", "missing", "wanted")

    def __init__(self, index: int, wanted: WriteMarkers) -> None:
        self.index = index  # index of the coordinator's partition
        self.wanted = wanted
        self.missing: set[Partition] = set(wanted.partitions)


class TxnMarkerSender:
    """Performs `WriteMarkers` and notifies the coordinator when the markers are written."""

    def __init__(self, host: TxnMarkerSenderHost) -> None:
        self._host = host
        self._jobs: dict[tuple[int, str], MarkerJob] = {}
        self._outboxes: dict[int, TxnMarkerQueue] = {}
        self._limited_log = LimitedLog(log, host.clock.monotonic)

    def perform(self, index: int, wanted: WriteMarkers) -> None:
        job = MarkerJob(index, wanted)
        self._jobs[index, wanted.transactional_id] = job
        if job.missing:
            self._send(job, sorted(job.missing))
        else:
            self._complete(job)

    def log_timeout(self, index: int, aborted: TransactionTimedOut) -> None:
        """A producer has not ended its transaction in time."""
        self._limited_log.warning(
            "aborting a transaction: its producer has not ended it in time",
            about=aborted.transactional_id,
            transactional_id=aborted.transactional_id,
            producer_id=aborted.producer_id,
            timeout_ms=aborted.timeout_ms,
            partitions=aborted.partitions,
        )

    def _send(self, job: MarkerJob, partitions: Iterable[Partition]) -> None:
        host = self._host
        if host.stopping or self.superseded(job):
            return
        epoch = self._coordinator_epoch(job.index)
        if epoch is None:
            return  # the new leader of the coordinator's partition sends it again
        away: dict[int, list[Partition]] = {}
        for partition in partitions:
            known = host.metadata.image.partition(*partition)
            if known is None:
                self.answered(job, partition, ErrorCode.NONE)  # deleted: it needs no marker
            elif known.leader == host.node_id:
                self._mark_here(job, partition, epoch)
            elif known.leader == NO_LEADER:
                self.answered(job, partition, ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                away.setdefault(known.leader, []).append(partition)
        for broker_id, theirs in away.items():
            self._queue_of(broker_id).put(job, theirs, epoch)

    def _queue_of(self, broker_id: int) -> TxnMarkerQueue:
        outbox = self._outboxes.get(broker_id)
        if outbox is None:
            outbox = self._outboxes[broker_id] = TxnMarkerQueue(self._host, broker_id, self)
        return outbox

    def _mark_here(self, job: MarkerJob, partition: Partition, coordinator_epoch: int) -> None:
        host = self._host
        wanted = job.wanted
        leader = host.partitions.find(*partition)
        if not isinstance(leader, SoleLeader):
            self.answered(job, partition, leader)
            return
        try:
            append_marker(
                host,
                leader,
                ProducerIdentity(wanted.producer_id, wanted.epoch),
                commit=wanted.commit,
                coordinator_epoch=coordinator_epoch,
                version=wanted.version,
            )
        except StorageError as error:
            self.answered(job, partition, error.code)
            return
        # A marker counts as written only when it is committed: a crash could remove it before.
        end = leader.log.log_end_offset
        done = when_committed(host.loop, host.flusher, leader, end)
        if done.done():
            self.answered(job, partition, done.result())
        else:
            done.add_done_callback(lambda done: self.answered(job, partition, done.result()))

    def answered(self, job: MarkerJob, partition: Partition, code: ErrorCode) -> None:
        """Handles the outcome of one marker."""
        if code is not ErrorCode.NONE:
            too_late = code in _TOO_LATE
            log.log(
                logging.ERROR if too_late else logging.DEBUG,
                "transaction marker refused: the partition has a newer epoch"
                if too_late
                else "transaction marker not written, retrying",
                extra={"topic": partition[0], "partition": partition[1], "error": code.name},
            )
            if not too_late:
                self._host.timers.call_later(RETRY_S, lambda: self._send(job, (partition,)))
                return
        job.missing.discard(partition)
        if not job.missing:
            self._complete(job)

    def _coordinator_epoch(self, index: int) -> int | None:
        leader = self._host.partitions.find(TRANSACTION_STATE_TOPIC, index)
        return leader.epoch if isinstance(leader, SoleLeader) else None

    def _complete(self, job: MarkerJob) -> None:
        if self._host.stopping or self.superseded(job):
            return
        done = self._host.transactions.run_partition(
            job.index, lambda shard, now_ms: shard.complete(job.wanted, now_ms)
        )
        if done.done():
            self._completed(job, done)
        else:
            done.add_done_callback(lambda _: self._completed(job, done))

    def _completed(self, job: MarkerJob, done: asyncio.Future[None]) -> None:
        if done.cancelled() or self.superseded(job):
            return
        refused = isinstance(done.exception(), CoordinatorError)
        if not refused or self._coordinator_epoch(job.index) is None:
            # The shard has it; or another broker leads it now, where the loading shard sends it
            # again.
            del self._jobs[job.index, job.wanted.transactional_id]
        elif not self._host.stopping:
            # Too few in-sync replicas or a full disk: the shard is loaded and would not request it
            # again. A loading shard requests it again, and may be notified twice.
            self._host.timers.call_later(RETRY_S, lambda: self._complete(job))

    def superseded(self, job: MarkerJob) -> bool:
        """Whether a reloaded shard has requested the same markers, or those of a later
        transaction."""
        return self._jobs.get((job.index, job.wanted.transactional_id)) is not job
