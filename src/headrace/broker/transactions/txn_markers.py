"""Has the markers written that end transactions, by the leaders of their partitions.

Guarantees: a transaction is reported complete only when every one of its partitions has the marker,
committed there; a partition that cannot take it now is tried again until it can; one that is gone
needs none. What other brokers lead goes to them in one request at a time each, with all
transactions that have come together meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from headrace.broker.partitions.commit_wait import when_committed
from headrace.broker.transactions.marker_channel import MarkerChannel, MarkerChannelHost
from headrace.cluster.topology import GROUP_METADATA_TOPIC, NO_LEADER, TRANSACTION_STATE_TOPIC
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.marker_request import WriteMarkers
from headrace.coordinator.transaction.transaction import MAX_EPOCH, V2, Partition
from headrace.protocol.errors import ErrorCode
from headrace.records.control import end_txn_marker
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import InvalidProducerEpoch, StorageError
from headrace.storage.state.producers import NO_OFFSET, BatchOrigin

if TYPE_CHECKING:
    from headrace.broker.metadata.standalone_metadata import MetadataView
    from headrace.broker.partitions.flusher import Flusher
    from headrace.broker.runtime.timers import Timer
    from headrace.clock import Clock
    from headrace.coordinator.common.result import CoordinatorResult
    from headrace.coordinator.transaction.transaction_shard import TransactionShard

R = TypeVar("R")

log = logging.getLogger(__name__)

RETRY_S: Final = 0.1

# The partition knows a newer epoch of the producer or of its coordinator. A marker of this
# transaction will never be accepted there, and nothing of it can follow.
_TOO_LATE: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
)


class GroupCoordinator(Protocol):
    """Keeps the offsets that transactions commit."""

    def end_transaction(
        self, index: int, producer: ProducerIdentity, *, committed: bool
    ) -> None: ...


class AppendMarkerHost(Protocol):
    """What one marker needs of the broker that appends it."""

    clock: Clock

    @property
    def groups(self) -> GroupCoordinator: ...


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


class TxnMarkersHost(AppendMarkerHost, MarkerChannelHost, Protocol):
    """What markers need of their broker."""

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


def append_marker(
    host: AppendMarkerHost,
    leader: SoleLeader,
    producer: ProducerIdentity,
    *,
    commit: bool,
    coordinator_epoch: int,
    version: int,
) -> None:
    """One marker into one partition; raises StorageError.

    With version 2 of the protocol a marker has an epoch that its transaction did not have, unless
    it is repeated: one with the transaction's own epoch is a late message of an earlier end.
    """
    now_ms = host.clock.wall_ms()
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
    leader.append(memoryview(bytearray(marker)), now_ms, BatchOrigin.COORDINATOR)
    if leader.topic == GROUP_METADATA_TOPIC:
        host.groups.end_transaction(leader.index, producer, committed=commit)


class MarkerJob:
    """A transaction whose markers are being written."""

    __slots__ = ("index", "missing", "wanted")

    def __init__(self, index: int, wanted: WriteMarkers) -> None:
        self.index = index  # of the coordinator's partition
        self.wanted = wanted
        self.missing: set[Partition] = set(wanted.partitions)


class TxnMarkers:
    """Performs `WriteMarkers` and tells the coordinator when they are done."""

    def __init__(self, host: TxnMarkersHost) -> None:
        self._host = host
        self._jobs: dict[tuple[int, str], MarkerJob] = {}
        self._outboxes: dict[int, MarkerChannel] = {}

    def perform(self, index: int, wanted: WriteMarkers) -> None:
        job = MarkerJob(index, wanted)
        self._jobs[index, wanted.transactional_id] = job
        if job.missing:
            self._send(job, sorted(job.missing))
        else:
            self._complete(job)

    def _send(self, job: MarkerJob, partitions: Iterable[Partition]) -> None:
        host = self._host
        if host.stopping or self.superseded(job):
            return
        epoch = self._coordinator_epoch(job.index)
        if epoch is None:
            return  # whoever leads the coordinator's partition now asks again
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
            self._outbox(broker_id).put(job, theirs, epoch)

    def _outbox(self, broker_id: int) -> MarkerChannel:
        outbox = self._outboxes.get(broker_id)
        if outbox is None:
            outbox = self._outboxes[broker_id] = MarkerChannel(self._host, broker_id, self)
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
        # A marker that a crash may undo is not written yet.
        end = leader.log.log_end_offset
        done = when_committed(host.loop, host.flusher, leader, end)
        if done.done():
            self.answered(job, partition, done.result())
        else:
            done.add_done_callback(lambda done: self.answered(job, partition, done.result()))

    def answered(self, job: MarkerJob, partition: Partition, code: ErrorCode) -> None:
        """What became of one marker."""
        if code is not ErrorCode.NONE:
            too_late = code in _TOO_LATE
            log.log(
                logging.ERROR if too_late else logging.DEBUG,
                "a transaction's marker was refused"
                if too_late
                else "a transaction's marker was not written; it is tried again",
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
            # It knows; or another broker leads it now, where the shard asks again when it loads.
            del self._jobs[job.index, job.wanted.transactional_id]
        elif not self._host.stopping:
            # Too few replicas in sync, no room on the disk: it is here, and would never ask. One
            # that loads asks, but may be told twice.
            self._host.timers.call_later(RETRY_S, lambda: self._complete(job))

    def superseded(self, job: MarkerJob) -> bool:
        """A shard that was loaded anew has asked for the same, or for a later transaction."""
        return self._jobs.get((job.index, job.wanted.transactional_id)) is not job
