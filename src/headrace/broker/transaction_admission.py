"""Whether a producer may write to a partition in its transaction (KIP-890).

A partition that gets a transactional record and is not in the transaction would never get the
marker that ends it, and its readers would wait for ever. So the first write of a transaction to a
partition asks the coordinator: a producer of version 1 must have added the partition, for one of
version 2 the coordinator adds it now. Later writes are recognised by the partition itself, which
has the transaction open in that epoch.

Nothing may come between an admission and the append that it allows: who had to wait asks again.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.cluster.topology import GROUP_METADATA_TOPIC
from headrace.coordinator.errors import CoordinatorError
from headrace.coordinator.turn import Producer
from headrace.protocol.errors import ErrorCode
from headrace.records.batch import HEADER_SIZE, TRANSACTIONAL_FLAG
from headrace.replication.leader import Leader
from headrace.storage.producers import NO_OFFSET
from headrace.transactions.transaction import V2, Partition

if TYPE_CHECKING:
    from headrace.broker.node import Broker

# Of a batch: attributes, producer id and epoch, base sequence.
_GLANCE: Final = struct.Struct(">21xH20xqhi")

NONE = ErrorCode.NONE

# The coordinator is not there at the moment. Clients retry this one, also old ones, and do not ask
# for new metadata because of it.
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Write(NamedTuple):
    """What a transactional batch says of itself, and where it wants to go."""

    leader: Leader
    producer: Producer
    sequence: int


def transactional_write(leader: Leader, records: memoryview) -> Write | None:
    """None if the batch is not part of a transaction."""
    if len(records) < HEADER_SIZE:
        return None
    attributes, producer_id, epoch, sequence = _GLANCE.unpack_from(records)
    if not attributes & TRANSACTIONAL_FLAG or producer_id < 0:
        return None
    return Write(leader, Producer(producer_id, epoch), sequence)


def is_open(leader: Leader, producer: Producer) -> bool:
    """Whether the producer's transaction already has records in the partition."""
    known = leader.log.producers.get(producer.producer_id)
    return (
        known is not None and known.txn_first_offset != NO_OFFSET and known.epoch == producer.epoch
    )


def admit(
    broker: Broker,
    transactional_id: str,
    producer: Producer,
    partitions: Iterable[Partition],
    *,
    adds: bool,
) -> ErrorCode | asyncio.Future[ErrorCode]:
    """The partitions are in the producer's open transaction, added to it if `adds`."""
    wanted = frozenset(partitions)
    if adds:
        return broker.transactions.answer(
            transactional_id,
            lambda shard, now_ms: shard.add_partitions(
                transactional_id, producer, wanted, V2, NONE, now_ms
            ),
            lambda error: error.code,
        )
    return verify(broker, transactional_id, producer, wanted)


def verify(
    broker: Broker, transactional_id: str, producer: Producer, partitions: frozenset[Partition]
) -> ErrorCode:
    """The first thing that speaks against writing to the partitions now."""
    try:
        verdicts = broker.transactions.read(
            transactional_id,
            lambda shard, _: shard.verify_partitions(transactional_id, producer, partitions),
        )
    except CoordinatorError as error:
        return error.code
    return next((code for code in verdicts.values() if code), NONE)


def admit_group(
    broker: Broker, transactional_id: str, producer: Producer, group_id: str, *, adds: bool
) -> ErrorCode | asyncio.Future[ErrorCode]:
    """As `admit`, for the offsets of a group; the error is one for TxnOffsetCommit."""
    try:
        partition = (GROUP_METADATA_TOPIC, broker.groups.partition_of(group_id))
    except CoordinatorError as error:
        return error.code
    leader = broker.partitions.find(*partition)
    if isinstance(leader, Leader) and is_open(leader, producer):
        return NONE
    if not adds and not broker.limits.transaction_verification:
        return NONE
    return admit(broker, transactional_id, producer, [partition], adds=adds)


def produce_error(code: ErrorCode, *, adds: bool, knows_abortable: bool) -> ErrorCode:
    """The coordinator's error as a producer should see it, who asked no coordinator."""
    if code in _TRY_AGAIN:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS:
        return code if adds else ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
