"""Whether a producer may write to a partition in its transaction (KIP-890).

A partition with a transactional record that is not part of the transaction would never get the
marker that ends it, and its readers would wait indefinitely. So the first write of a transaction to
a partition asks the coordinator: a producer of version 1 must have added the partition; for a
producer of version 2 the coordinator adds it now. For later writes the partition itself knows that
the transaction is open in that epoch.

Nothing may come between a verification and the append that it allows. A request that had to wait
verifies again; if the coordinator is on another broker, it checks whether a marker has been
appended meanwhile.

A producer may write as soon as its last transaction is decided, while the markers of that
transaction are being written. The broker retries for a short time, as Kafka does, before it returns
the error.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from headrace.client.errors import ClientError, code_of_number
from headrace.cluster.topology import GROUP_METADATA_TOPIC
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.transaction import V2, Partition
from headrace.protocol.errors import ErrorCode
from headrace.records.batch_header import HEADER_SIZE, TRANSACTIONAL_FLAG
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import StorageError
from headrace.storage.state.producers import NO_OFFSET

if TYPE_CHECKING:
    from headrace.broker.membership.peers import Peers
    from headrace.broker.network.broker_limits import BrokerLimits
    from headrace.broker.partitions.partition_table import PartitionTable
    from headrace.coordinator.common.result import CoordinatorResult
    from headrace.coordinator.transaction.transaction_shard import TransactionShard

R = TypeVar("R")

# Fields of a batch: attributes, producer id and epoch, base sequence.
_GLANCE: Final = struct.Struct(">21xH20xqhi")

NONE = ErrorCode.NONE
ASKING_TIMEOUT_S: Final = 10.0  # producers wait for 30 s and retry

_STILL_ENDING: Final = ErrorCode.CONCURRENT_TRANSACTIONS


class TransactionCoordinator(Protocol):
    """The transaction coordinator: it knows each producer's open transaction and its partitions."""

    def remote_leader_of(self, key: str) -> int | None: ...

    def answer(
        self,
        key: str,
        decide: Callable[[TransactionShard, int], CoordinatorResult[R]],
        refuse: Callable[[CoordinatorError], R],
    ) -> R | asyncio.Future[R]: ...

    def read(self, key: str, query: Callable[[TransactionShard, int], R]) -> R: ...


class GroupPartitions(Protocol):
    """The groups' coordinator, which knows the partition of each."""

    def partition_of(self, key: str) -> int: ...


class TxnVerificationHost(Protocol):
    """The part of the broker that verification uses."""

    loop: asyncio.AbstractEventLoop
    limits: BrokerLimits
    partitions: PartitionTable

    @property
    def transactions(self) -> TransactionCoordinator: ...

    @property
    def groups(self) -> GroupPartitions: ...

    @property
    def peers(self) -> Peers | None: ...


class Write(NamedTuple):
    """The transaction of a batch, and its partition."""

    leader: SoleLeader
    producer: ProducerIdentity
    sequence: int
    markers: int  # the producer's markers in the partition when the batch arrived

    def was_overtaken(self, *, adds: bool) -> bool:
        """Whether the transaction has ended in the partition since then."""
        return self.leader.closed or has_ended(self.leader, self.producer, self.markers, adds=adds)


def transactional_write(leader: SoleLeader, records: memoryview) -> Write | None:
    """The batch's transaction and partition; None if the batch is not transactional."""
    if len(records) < HEADER_SIZE:
        return None
    attributes, producer_id, epoch, sequence = _GLANCE.unpack_from(records)
    if not attributes & TRANSACTIONAL_FLAG or producer_id < 0:
        return None
    producer = ProducerIdentity(producer_id, epoch)
    return Write(leader, producer, sequence, markers_of(leader, producer))


def markers_of(leader: SoleLeader, producer: ProducerIdentity) -> int:
    """The number of the producer's transactions that have ended in the partition."""
    known = leader.log.producers.get(producer.producer_id)
    return 0 if known is None else known.markers


def has_ended(leader: SoleLeader, producer: ProducerIdentity, markers: int, *, adds: bool) -> bool:
    """Whether the producer's transaction has ended since the partition had `markers`.

    With version 2 (`adds`) each transaction has its own epoch, and its marker a higher one: the
    late marker of the previous transaction does not end it, as it would by counting (KAFKA-18575).
    """
    known = leader.log.producers.get(producer.producer_id)
    if adds:
        return known is not None and known.epoch > producer.epoch
    return markers_of(leader, producer) != markers


def is_open(leader: SoleLeader, producer: ProducerIdentity) -> bool:
    """Whether the producer's transaction already has records in the partition."""
    known = leader.log.producers.get(producer.producer_id)
    return (
        known is not None and known.txn_first_offset != NO_OFFSET and known.epoch == producer.epoch
    )


def admit(
    broker: TxnVerificationHost,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Iterable[Partition],
    *,
    adds: bool,
) -> ErrorCode | asyncio.Future[ErrorCode]:
    """Verifies that the partitions are in the producer's open transaction; adds them if `adds`."""
    wanted = frozenset(partitions)
    verdict = _admit_now(broker, transactional_id, producer, wanted, adds=adds)
    if not adds or (isinstance(verdict, ErrorCode) and verdict is not _STILL_ENDING):
        return verdict
    return broker.loop.create_task(_admit_soon(broker, transactional_id, producer, wanted, verdict))


async def _admit_soon(
    broker: TxnVerificationHost,
    transactional_id: str,
    producer: ProducerIdentity,
    wanted: frozenset[Partition],
    verdict: ErrorCode | asyncio.Future[ErrorCode],
) -> ErrorCode:
    """Waits a short time for the markers of the producer's last transaction."""
    limits = broker.limits
    until = broker.loop.time() + limits.adding_retry_max_s
    while True:
        code = verdict if isinstance(verdict, ErrorCode) else await verdict
        if code is not _STILL_ENDING or broker.loop.time() >= until:
            return code
        await asyncio.sleep(limits.adding_retry_s)
        verdict = _admit_now(broker, transactional_id, producer, wanted, adds=True)


def _admit_now(
    broker: TxnVerificationHost,
    transactional_id: str,
    producer: ProducerIdentity,
    wanted: frozenset[Partition],
    *,
    adds: bool,
) -> ErrorCode | asyncio.Future[ErrorCode]:
    host = broker.transactions.remote_leader_of(transactional_id)
    if host is not None:
        return broker.loop.create_task(
            _ask_coordinator(broker, host, transactional_id, producer, wanted, verify_only=not adds)
        )
    if adds:
        return broker.transactions.answer(
            transactional_id,
            lambda shard, now_ms: shard.add_partitions(
                transactional_id, producer, wanted, V2, NONE, now_ms
            ),
            lambda error: error.code,
        )
    return verify(broker, transactional_id, producer, wanted)


async def _ask_coordinator(
    broker: TxnVerificationHost,
    host: int,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: frozenset[Partition],
    *,
    verify_only: bool,
) -> ErrorCode:
    """Asks the broker that coordinates the transaction."""
    from headrace.protocol.messages import add_partitions_to_txn as messages

    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    transaction = messages.AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[
            messages.AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in topics.items()
        ],
    )
    peers = broker.peers
    assert peers is not None  # another broker leads the coordinator's partition
    try:
        answer = await peers.request(
            host,
            messages.AddPartitionsToTxnRequest(transactions=[transaction]),
            messages.AddPartitionsToTxnResponse,
            timeout_s=ASKING_TIMEOUT_S,
        )
    except ClientError:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    codes = [
        answer.error_code,
        *(
            one.partition_error_code
            for result in answer.results_by_transaction
            for topic in result.topic_results
            for one in topic.results_by_partition
        ),
    ]
    return code_of_number(next((code for code in codes if code), NONE))


def verify(
    broker: TxnVerificationHost,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: frozenset[Partition],
) -> ErrorCode:
    """The first reason against writing to the partitions now."""
    try:
        verdicts = broker.transactions.read(
            transactional_id,
            lambda shard, _: shard.verify_partitions(transactional_id, producer, partitions),
        )
    except CoordinatorError as error:
        return error.code
    return next((code for code in verdicts.values() if code), NONE)


def admit_group(
    broker: TxnVerificationHost,
    transactional_id: str,
    producer: ProducerIdentity,
    group_id: str,
    *,
    adds: bool,
) -> ErrorCode | asyncio.Future[ErrorCode]:
    """Like `admit`, for the offsets of a group; the error is one of TxnOffsetCommit."""
    try:
        partition = (GROUP_METADATA_TOPIC, broker.groups.partition_of(group_id))
    except CoordinatorError as error:
        return error.code
    leader = broker.partitions.find(*partition)
    if isinstance(leader, SoleLeader) and is_open(leader, producer):
        return NONE
    if not adds and not broker.limits.transaction_verification:
        return NONE
    return admit(broker, transactional_id, producer, [partition], adds=adds)


def group_markers(broker: TxnVerificationHost, group_id: str, producer: ProducerIdentity) -> int:
    """The number of the producer's transactions that have ended in the group's partition."""
    try:
        leader = _group_leader(broker, group_id)
        return 0 if leader is None else markers_of(leader, producer)
    except (CoordinatorError, StorageError):
        return 0  # the commit itself gets the error


def has_group_ended(
    broker: TxnVerificationHost,
    group_id: str,
    producer: ProducerIdentity,
    markers: int,
    *,
    adds: bool,
) -> bool:
    """Like `has_ended`, for the group's partition."""
    try:
        leader = _group_leader(broker, group_id)
        if leader is None:
            return markers != 0
        return has_ended(leader, producer, markers, adds=adds)
    except (CoordinatorError, StorageError):
        return markers != 0


def _group_leader(broker: TxnVerificationHost, group_id: str) -> SoleLeader | None:
    leader = broker.partitions.find(GROUP_METADATA_TOPIC, broker.groups.partition_of(group_id))
    return leader if isinstance(leader, SoleLeader) else None
