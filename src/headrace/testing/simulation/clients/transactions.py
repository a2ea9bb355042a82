"""Transactional producers that write to two partitions in one transaction, and their invariants.

A transaction with a successful commit response is complete, once, in every partition. An aborted
transaction, or one without a commit request, is never visible with read_committed. If the response
to a commit was lost, the transaction is complete or invisible. A producer that was fenced by a
later one with the same transactional id commits nothing any more.
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
from headrace.records.batch_header import headers
from headrace.records.control import ControlType, read_control
from headrace.records.record import Record, build_batch, iter_records
from headrace.testing.simulation.checks.history import Place, Violation
from headrace.testing.simulation.clients.workload import MAX_VALUE_BYTES, RETRY_S, Reader

# The newest versions in which the producer adds the partitions of a transaction itself.
ADD_PARTITIONS: Final = 3
PRODUCE: Final = 11
END: Final = 4
READ_COMMITTED: Final = 1

ALL_IN_SYNC: Final = -1
API_TIMEOUT_S: Final = 8.0
TIMEOUT_MS: Final = 10_000
PRODUCE_TIMEOUT_MS: Final = 2_000
MEAN_PAUSE_S: Final = 0.8
ABORTS: Final = 0.25  # share of the transactions
VANISHES: Final = 0.05  # leaves a transaction open and starts again

ONLY_COMMITTED: Final = "read_committed shows committed transactions only"
WHOLE: Final = "transactions are complete or invisible"


class TransactionState(Enum):
    OPEN = "without a commit request"
    ASKED = "with a commit request"
    COMMITTED = "committed"
    ABORTED = "never committed"


class TransactionHistory:
    """The state of each transaction, as its producer knows it."""

    def __init__(self) -> None:
        self.states: dict[bytes, TransactionState] = {}
        self._seen: dict[tuple[Place, int], bytes] = {}
        self.committed = 0

    def read(self, place: Place, records: Iterable[tuple[int, bytes]]) -> None:
        """Records the values that a reader with read_committed got."""
        for offset, name in records:
            state = self.states.get(name)
            if state not in (TransactionState.ASKED, TransactionState.COMMITTED):
                raise Violation(ONLY_COMMITTED, f"{place} offset {offset}: {name!r} is {state}")
            before = self._seen.setdefault((place, offset), name)
            if before != name:
                raise Violation(
                    ONLY_COMMITTED, f"{place} offset {offset}: {before!r}, later {name!r}"
                )

    def check(self, logs: Mapping[Place, Mapping[int, bytes]]) -> None:
        """Raises `Violation` if the partitions, read with read_committed at the end, are
        inconsistent."""
        held: dict[bytes, list[Place]] = {}
        for place, log in logs.items():
            for name in log.values():
                held.setdefault(name, []).append(place)
        for name, state in self.states.items():
            found = sorted(held.get(name, []))
            if found not in ([], sorted(logs)):
                raise Violation(WHOLE, f"{name!r}, {state.name}, is in {found}")
            if (state is TransactionState.COMMITTED) is not bool(
                found
            ) and state is not TransactionState.ASKED:
                raise Violation(WHOLE, f"{name!r}, {state.name}, is in {found}")
        for (place, offset), name in self._seen.items():
            if logs[place].get(offset) != name:
                raise Violation(WHOLE, f"{place} offset {offset}: {name!r} was read and is missing")


class TransactionalProducer:
    """Writes one transaction after the other with one transactional id, each to all partitions."""

    def __init__(
        self,
        client: ClusterClient,
        books: TransactionHistory,
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
                    timeout_s=API_TIMEOUT_S,
                )
                if not answer.error_code:
                    if self.stopping:
                        return  # this aborts a transaction that was left open
                    await self._run_transactions(answer.producer_id, answer.producer_epoch)
            except ClientError:
                pass
            await asyncio.sleep(RETRY_S)

    async def _run_transactions(self, producer_id: int, producer_epoch: int) -> None:
        """Runs until a transaction fails; then its state is unknown, and the producer restarts."""
        sequence = 0
        while not self.stopping:
            name = f"{self._name}:{self._count}".encode()
            self._count += 1
            # Only a transaction with a commit request may become visible.
            self._books.states[name] = TransactionState.OPEN
            producer = (producer_id, producer_epoch)
            if not await self._add_places(producer):
                return
            for place in self._places:
                if not await self._write_record(place, name, producer, sequence):
                    return
            sequence += 1
            if self._random.random() < VANISHES:
                return
            if not await self._end_transaction(
                name, producer, commit=self._random.random() >= ABORTS
            ):
                return
            await asyncio.sleep(self._random.expovariate(1 / MEAN_PAUSE_S))

    async def _add_places(self, producer: tuple[int, int]) -> bool:
        topics: dict[str, list[int]] = {}
        for place in self._places:
            topics.setdefault(place.topic, []).append(place.partition)
        answer = await self._client.send(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._name,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            ),
            AddPartitionsToTxnResponse,
            to=self._coordinator,
            timeout_s=API_TIMEOUT_S,
            at_most=ADD_PARTITIONS,
            code_of=_code_of_added,
        )
        return not _code_of_added(answer)

    async def _write_record(
        self, place: Place, name: bytes, producer: tuple[int, int], sequence: int
    ) -> bool:
        batch = build_batch(
            # Markers have the time at which they are written: records this old would expire.
            [Record(0, self._clock.wall_ms(), None, name, ())],
            producer_id=producer[0],
            producer_epoch=producer[1],
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
            timeout_s=API_TIMEOUT_S,
            at_most=PRODUCE,
            code_of=_code_of_produced,
        )
        return _code_of_produced(answer) in (
            ErrorCode.NONE,
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        )

    async def _end_transaction(
        self, name: bytes, producer: tuple[int, int], *, commit: bool
    ) -> bool:
        states = self._books.states
        states[name] = TransactionState.ASKED if commit else TransactionState.ABORTED
        answer = await self._client.send(
            EndTxnRequest(
                transactional_id=self._name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                committed=commit,
            ),
            EndTxnResponse,
            to=self._coordinator,
            timeout_s=API_TIMEOUT_S,
            at_most=END,
        )
        if answer.error_code:
            return False
        if commit:
            states[name] = TransactionState.COMMITTED
            self._books.committed += 1
        return True


class CommittedReader(Reader):
    """Reads committed records, as a consumer with read_committed does."""

    isolation_level = READ_COMMITTED
    books: TransactionHistory | None = None

    def _take_batches(self, answer: FetchPartitionData) -> None:
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
    # The other partitions of a refused request have OPERATION_NOT_ATTEMPTED.
    return next(
        (code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)),
        max(codes, default=0),
    )


def _code_of_produced(answer: ProduceResponse) -> int:
    return answer.responses[0].partition_responses[0].error_code
