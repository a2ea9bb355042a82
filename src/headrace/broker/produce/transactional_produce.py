"""The transactional side of Produce: which partitions of a request may be written to.

Up to v11 the producer has added the partitions to its transaction itself (v11 knows
TRANSACTION_ABORTABLE); from v12 on writing to a partition adds it (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from headrace.broker.transactions.txn_verification import (
    TxnVerificationHost,
    Write,
    admit,
    is_open,
    produce_error,
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
"""Partitions whose batch is not part of an open transaction, and what the producer is told."""


class Admission:
    """One request of a transactional producer."""

    __slots__ = (
        "_adds",
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
        self._adds = version >= FIRST_VERSION_THAT_ADDS
        self._transactional_id = request.transactional_id or ""
        self._is_remote = False
        self._writes = self._first_writes(request)

    def refusal(self, leader: SoleLeader) -> ErrorCode | None:
        """What the producer is told in place of an append to this partition."""
        return self._refusals.get((leader.topic_id, leader.index))

    def ask(self) -> asyncio.Future[ErrorCode] | None:
        """Asks the coordinator about partitions that are new to the transaction.

        A future means that the answer is on its way, and that `ask_again` is needed after it.
        """
        writes = self._writes
        if not writes or not (self._adds or self._host.limits.transaction_verification):
            return None
        self._is_remote = self._host.transactions.elsewhere(self._transactional_id) is not None
        verdict = admit(
            self._host,
            self._transactional_id,
            writes[0].producer,
            [(write.leader.topic, write.leader.index) for write in writes],
            adds=self._adds,
        )
        if isinstance(verdict, asyncio.Future):
            return verdict
        if verdict:
            self._refuse(writes, verdict)
        elif self._adds:
            self._refuse_gaps()
        return None

    def ask_again(self, verdict: ErrorCode) -> None:
        """After a wait: what was decided then must still hold."""
        if verdict:
            self._refuse(self._writes, verdict)
            return
        for write in self._writes:
            code = self._standing(write)
            if code:
                self._refuse([write], code)
        if self._adds:
            self._refuse_gaps()

    def check(self, leader: SoleLeader) -> None:
        """As `ask_again`, for one partition; raises StorageError."""
        for write in self._writes:
            if write.leader is leader and self._standing(write):
                raise InvalidTxnState("the transaction ended before its records were written")

    # --- inside ---------------------------------------------------------------------------------

    def _first_writes(self, request: ProduceRequest) -> list[Write]:
        """The batches whose partition does not know the transaction yet."""
        firsts = []
        producers = set()
        for write in self._transactional_writes(request):
            producers.add(write.producer)
            try:
                if is_open(write.leader, write.producer):
                    continue
            except StorageError:
                continue  # the append will say so
            firsts.append(write)
        if len(producers) > 1:
            self._refuse(self._transactional_writes(request), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
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

    def _refuse_gaps(self) -> None:
        """A transaction of version 2 has an epoch of its own, so that it starts with sequence 0:
        a producer of whom nothing is known has lost a batch if it starts with another."""
        for write in self._writes:
            if write.sequence and _is_new(write):
                self._refusals[write.leader.topic_id, write.leader.index] = (
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                )

    def _standing(self, write: Write) -> ErrorCode:
        if write.leader.closed:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if is_open(write.leader, write.producer):
            return ErrorCode.NONE
        if self._is_remote:
            overtaken = write.was_overtaken(adds=self._adds)
            return ErrorCode.INVALID_TXN_STATE if overtaken else ErrorCode.NONE
        partition = (write.leader.topic, write.leader.index)
        return verify(self._host, self._transactional_id, write.producer, frozenset({partition}))

    def _refuse(self, writes: Iterator[Write] | list[Write], code: ErrorCode) -> None:
        shown = produce_error(
            code,
            adds=self._adds,
            knows_abortable=self._version >= FIRST_VERSION_THAT_KNOWS_ABORTABLE,
        )
        for write in writes:
            self._refusals[write.leader.topic_id, write.leader.index] = shown


def _is_new(write: Write) -> bool:
    known = write.leader.log.producers.get(write.producer.producer_id)
    return known is None or not known.batches
