"""Tellers who write to two partitions in one transaction, and what must hold of what they write.

A transaction whose commit was answered is there whole, once, in every partition. One that was
aborted, or whose commit nobody asked for yet, is shown to no reader with read_committed. Where the
answer to a commit was lost, it is there whole or not at all. Who is replaced under its
transactional id, by itself after a failure, commits nothing any more.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from random import Random
from typing import Final

from headrace.client.client import ClusterClient, ToLeader
from headrace.client.coordinators import CoordinatorKind, CoordinatorNode
from headrace.client.errors import ClientError
from headrace.clock import Clock
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.protocol.messages.fetch import FetchPartitionData
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headrace.records.batch import headers
from headrace.records.control import ControlType, read_control
from headrace.records.record import Record, build_batch, iter_records
from headrace.testing.simulation.history import Place, Violation
from headrace.testing.simulation.workload import MAX_VALUE_BYTES, RETRY_S, Reader

# The newest versions in which the partitions of a transaction are added by who writes.
ADD_PARTITIONS: Final = 3
PRODUCE: Final = 11
END: Final = 4
READ_COMMITTED: Final = 1

ALL_IN_SYNC: Final = -1
PATIENCE_S: Final = 8.0
TIMEOUT_MS: Final = 10_000
PRODUCE_TIMEOUT_MS: Final = 2_000
MEAN_PAUSE_S: Final = 0.8
ABORTS: Final = 0.25  # of the transactions, on purpose
VANISHES: Final = 0.05  # leaves a transaction open and begins anew

ONLY_COMMITTED: Final = "read_committed shows committed transactions only"
WHOLE: Final = "transactions are there whole or not at all"


class TellerState(Enum):
    OPEN = "nobody has asked for its commit"
    ASKED = "its commit was asked for"
    COMMITTED = "its commit was answered"
    ABORTED = "it never commits"


class Books:
    """What became of each transaction, as its teller knows."""

    def __init__(self) -> None:
        self.states: dict[bytes, TellerState] = {}
        self._seen: dict[tuple[Place, int], bytes] = {}
        self.committed = 0

    def read(self, place: Place, records: Iterable[tuple[int, bytes]]) -> None:
        """A reader with read_committed was given these."""
        for offset, name in records:
            state = self.states.get(name)
            if state not in (TellerState.ASKED, TellerState.COMMITTED):
                raise Violation(ONLY_COMMITTED, f"{place} offset {offset}: {name!r} is {state}")
            before = self._seen.setdefault((place, offset), name)
            if before != name:
                raise Violation(
                    ONLY_COMMITTED, f"{place} offset {offset}: {before!r}, later {name!r}"
                )

    def check(self, logs: Mapping[Place, Mapping[int, bytes]]) -> None:
        """Whether the partitions, as read_committed shows them at the end, fit together."""
        held: dict[bytes, list[Place]] = {}
        for place, log in logs.items():
            for name in log.values():
                held.setdefault(name, []).append(place)
        for name, state in self.states.items():
            found = sorted(held.get(name, []))
            if found not in ([], sorted(logs)):
                raise Violation(WHOLE, f"{name!r}, {state.name}, is in {found}")
            if (state is TellerState.COMMITTED) is not bool(
                found
            ) and state is not TellerState.ASKED:
                raise Violation(WHOLE, f"{name!r}, {state.name}, is in {found}")
        for (place, offset), name in self._seen.items():
            if logs[place].get(offset) != name:
                raise Violation(WHOLE, f"{place} offset {offset}: {name!r} was read and is gone")


class Teller:
    """One transaction after the other under one transactional id, each in all places."""

    def __init__(
        self,
        client: ClusterClient,
        books: Books,
        places: Sequence[Place],
        name: str,
        clock: Clock,
        chance: Random,
    ) -> None:
        self._client = client
        self._books = books
        self._places = places
        self._name = name
        self._clock = clock
        self._random = chance
        self._coordinator = CoordinatorNode(name, CoordinatorKind.TRANSACTION)
        self._count = 0
        self.stopping = False

    async def run(self) -> None:
        while True:
            try:
                answer = await self._client.send(
                    InitProducerIdRequest(
                        transactional_id=self._name, transaction_timeout_ms=TIMEOUT_MS
                    ),
                    InitProducerIdResponse,
                    to=self._coordinator,
                    timeout_s=PATIENCE_S,
                )
                if not answer.error_code:
                    if self.stopping:
                        return  # what was left open is aborted now
                    await self._work(answer.producer_id, answer.producer_epoch)
            except ClientError:
                pass
            await asyncio.sleep(RETRY_S)

    async def _work(self, producer_id: int, producer_epoch: int) -> None:
        """Until a transaction fails; then nobody knows what is open, and all begins anew."""
        sequence = 0
        while not self.stopping:
            name = f"{self._name}:{self._count}".encode()
            self._count += 1
            # Only an answered commit, or one that may be under way, is ever to be seen.
            self._books.states[name] = TellerState.OPEN
            who = (producer_id, producer_epoch)
            if not await self._add_places(who):
                return
            for place in self._places:
                if not await self._write(place, name, who, sequence):
                    return
            sequence += 1
            if self._random.random() < VANISHES:
                return
            if not await self._end(name, who, commit=self._random.random() >= ABORTS):
                return
            await asyncio.sleep(self._random.expovariate(1 / MEAN_PAUSE_S))

    async def _add_places(self, who: tuple[int, int]) -> bool:
        topics: dict[str, list[int]] = {}
        for place in self._places:
            topics.setdefault(place.topic, []).append(place.partition)
        answer = await self._client.send(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._name,
                v3_and_below_producer_id=who[0],
                v3_and_below_producer_epoch=who[1],
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            ),
            AddPartitionsToTxnResponse,
            to=self._coordinator,
            timeout_s=PATIENCE_S,
            at_most=ADD_PARTITIONS,
            code_of=_code_of_added,
        )
        return not _code_of_added(answer)

    async def _write(self, place: Place, name: bytes, who: tuple[int, int], sequence: int) -> bool:
        batch = build_batch(
            # Markers have the time at which they are written: so old a record would expire.
            [Record(0, self._clock.wall_ms(), None, name, ())],
            producer_id=who[0],
            producer_epoch=who[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        data = PartitionProduceData(index=place.partition, records=batch)
        answer = await self._client.send(
            ProduceRequest(
                transactional_id=self._name,
                acks=ALL_IN_SYNC,
                timeout_ms=PRODUCE_TIMEOUT_MS,
                topic_data=[TopicProduceData(name=place.topic, partition_data=[data])],
            ),
            ProduceResponse,
            to=ToLeader(*place),
            timeout_s=PATIENCE_S,
            at_most=PRODUCE,
            code_of=_code_of_produced,
        )
        return _code_of_produced(answer) in (
            ErrorCode.NONE,
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        )

    async def _end(self, name: bytes, who: tuple[int, int], *, commit: bool) -> bool:
        states = self._books.states
        states[name] = TellerState.ASKED if commit else TellerState.ABORTED
        answer = await self._client.send(
            EndTxnRequest(
                transactional_id=self._name,
                producer_id=who[0],
                producer_epoch=who[1],
                committed=commit,
            ),
            EndTxnResponse,
            to=self._coordinator,
            timeout_s=PATIENCE_S,
            at_most=END,
        )
        if answer.error_code:
            return False
        if commit:
            states[name] = TellerState.COMMITTED
            self._books.committed += 1
        return True


class CommittedReader(Reader):
    """Reads what is committed, as a consumer with read_committed does."""

    isolation_level = READ_COMMITTED
    books: Books | None = None

    def _take(self, answer: FetchPartitionData) -> None:
        data = bytes(answer.records or b"")
        aborted = sorted(
            (one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()
        )
        dropping: set[int] = set()
        taken: list[tuple[int, bytes]] = []
        for position, header in headers(data, partial_tail=True):
            while aborted and aborted[0][0] < header.next_offset:
                dropping.add(aborted.pop(0)[1])
            batch = data[position : position + header.size]
            records = list(iter_records(batch, max_bytes=MAX_VALUE_BYTES))
            if header.is_control:
                if read_control(records[0]).type is ControlType.ABORT:
                    dropping.discard(header.producer_id)
            elif header.producer_id not in dropping:
                taken += [(each.offset, each.value or b"") for each in records]
            self._passed(header.next_offset, header.partition_leader_epoch)
        fresh = [each for each in taken if each[0] not in self.found]
        self.found.update(fresh)
        if self.books is not None:
            self.books.read(self._place, fresh)


def _code_of_added(answer: AddPartitionsToTxnResponse) -> int:
    codes = [
        each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    # The others of a refused request are "not attempted".
    return next(
        (code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)),
        max(codes, default=0),
    )


def _code_of_produced(answer: ProduceResponse) -> int:
    return answer.responses[0].partition_responses[0].error_code
