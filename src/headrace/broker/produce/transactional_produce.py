"""Transaction checks of Produce: to which partitions a transactional request may write.

Up to v11 the producer adds partitions to its transaction with AddPartitionsToTxn (v11 has
TRANSACTION_ABORTABLE). From v12 on a write adds its partition (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from headrace.broker.transactions.txn_error_codes import produce_error
from headrace.broker.transactions.txn_verification import (
    TxnVerificationHost,
    Write,
    admit,
    is_open,
    transactional_write,
    verify,
)
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.produce import ProduceRequest
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import InvalidTxnState, StorageError

FIRST_VERSION_THAT_KNOWS_ABORTABLE: Final = 11
FIRST_VERSION_THAT_ADDS: Final = 12
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13

Refusals = dict[tuple[bytes, int], ErrorCode]
"""Error codes of the partitions whose batch is not part of an open transaction."""


class Admission:
    """The transaction checks of one request."""

    __slots__ = (
        "_adds_partitions",
        "_host",
        "_is_remote",
        "_refusals",
        "_transactional_id",
        "_version",
        "_writes",
    )

    def __init__(self, host: TxnVerificationHost, version: int, request: ProduceRequest) -> None:
        self._refusals: Refusals = {}
        self._host = host
        self._version = version
        self._adds_partitions = version >= FIRST_VERSION_THAT_ADDS
        self._transactional_id = request.transactional_id or ""
        self._is_remote = False
        self._writes = self._first_writes(request)

    def refusal(self, leader: SoleLeader) -> ErrorCode | None:
        """The error for this partition; None if its batch may be appended."""
        return self._refusals.get((leader.topic_id, leader.index))

    def verify_partitions(self) -> asyncio.Future[ErrorCode] | None:
        """Verifies or adds, with the coordinator, the partitions that are new to the transaction.

        Returns a future if the coordinator has to be waited for; call `apply_verdict` with its
        result.
        """
        writes = self._writes
        if not writes or not (self._adds_partitions or self._host.limits.transaction_verification):
            return None
        self._is_remote = (
            self._host.transactions.remote_leader_of(self._transactional_id) is not None
        )
        verdict = admit(
            self._host,
            self._transactional_id,
            writes[0].producer,
            [(write.leader.topic, write.leader.index) for write in writes],
            adds=self._adds_partitions,
        )
        if isinstance(verdict, asyncio.Future):
            return verdict
        if verdict:
            self._refuse_writes(writes, verdict)
        elif self._adds_partitions:
            self._refuse_sequence_gaps()
        return None

    def apply_verdict(self, verdict: ErrorCode) -> None:
        """Applies the verdict after the wait, and checks that the transaction is still open."""
        if verdict:
            self._refuse_writes(self._writes, verdict)
            return
        for write in self._writes:
            code = self._current_error(write)
            if code:
                self._refuse_writes([write], code)
        if self._adds_partitions:
            self._refuse_sequence_gaps()

    def check(self, leader: SoleLeader) -> None:
        """Raises StorageError if the transaction has ended in this partition meanwhile."""
        for write in self._writes:
            if write.leader is leader and self._current_error(write):
                raise InvalidTxnState(
                    f"the transaction ended before its batch in {leader.topic}-{leader.index}"
                )

    def _first_writes(self, request: ProduceRequest) -> list[Write]:
        """The batches that are the first of the transaction in their partition."""
        firsts = []
        producers = set()
        for write in self._transactional_writes(request):
            producers.add(write.producer)
            try:
                if is_open(write.leader, write.producer):
                    continue
            except StorageError:
                continue  # the append reports the error
            firsts.append(write)
        if len(producers) > 1:
            self._refuse_writes(
                self._transactional_writes(request), ErrorCode.INVALID_PRODUCER_ID_MAPPING
            )
            return []
        return firsts

    def _transactional_writes(self, request: ProduceRequest) -> Iterator[Write]:
        table = self._host.partitions
        by_id = self._version >= FIRST_VERSION_WITH_TOPIC_IDS
        for data in request.topic_data:
            topic = table.by_id.get(data.topic_id) if by_id else table.by_name.get(data.name)
            if topic is None or topic.internal:
                continue
            for partition in data.partition_data:
                leader = topic.leader(partition.index)
                if leader is not None and isinstance(partition.records, memoryview):
                    write = transactional_write(leader, partition.records)
                    if write is not None:
                        yield write

    def _refuse_sequence_gaps(self) -> None:
        """Refuses batches that do not start with sequence 0.

        A transaction of version 2 has its own epoch, so that its first batch has sequence 0. If
        an unknown producer starts with another sequence, a batch was lost.
        """
        for write in self._writes:
            if write.sequence and _is_unknown_producer(write):
                self._refusals[write.leader.topic_id, write.leader.index] = (
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                )

    def _current_error(self, write: Write) -> ErrorCode:
        if write.leader.closed:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if is_open(write.leader, write.producer):
            return ErrorCode.NONE
        if self._is_remote:
            overtaken = write.was_overtaken(adds=self._adds_partitions)
            return ErrorCode.INVALID_TXN_STATE if overtaken else ErrorCode.NONE
        partition = (write.leader.topic, write.leader.index)
        return verify(self._host, self._transactional_id, write.producer, frozenset({partition}))

    def _refuse_writes(self, writes: Iterator[Write] | list[Write], code: ErrorCode) -> None:
        shown = produce_error(
            code,
            adds=self._adds_partitions,
            knows_abortable=self._version >= FIRST_VERSION_THAT_KNOWS_ABORTABLE,
        )
        for write in writes:
            self._refusals[write.leader.topic_id, write.leader.index] = shown


def _is_unknown_producer(write: Write) -> bool:
    known = write.leader.log.producers.get(write.producer.producer_id)
    return known is None or not known.batches
