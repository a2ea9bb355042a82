"""A producer whose transactions hold records and a group's offsets: all of it, or nothing.

`init` takes the transactional id: whoever had it before can write no more, and what it left open is
aborted. From then on `produce`, `send_offsets` and `commit` make a transaction. After an error the
transaction is lost; `abort` ends it and makes the producer usable again.

Brokers with `transaction.version` 2 (KIP-890) add partitions as they are written to and raise the
epoch with every transaction, so that a request which comes late meets a closed door. With older
ones, partitions and groups are added beforehand.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from random import SystemRandom
from types import TracebackType
from typing import Final, Self, TypeVar

from headrace import __version__
from headrace.client.client import ClusterClient
from headrace.client.coordinators import Coordinator, CoordinatorKind
from headrace.client.errors import ClientError, code_of_number
from headrace.client.offsets import NO_OFFSET, Committed
from headrace.client.outcomes import TopicPartition
from headrace.clock import SystemClock
from headrace.pipeline.producer.appender import (
    Appender,
    Filling,
    Identity,
    Sequences,
    transactional_batch,
)
from headrace.pipeline.producer.errors import CommitUncertain, ProducerFailed, failure
from headrace.pipeline.producer.loop_thread import LoopThread
from headrace.pipeline.producer.settings import ProducerSettings
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from headrace.protocol.struct import Struct
from headrace.records.record import Record

R = TypeVar("R", bound=Struct)
T = TypeVar("T")

TRANSACTION_VERSION: Final = "transaction.version"
IMPLICIT_SINCE: Final = 2  # of the feature
INIT_AT_MOST: Final = 5  # later versions are for two-phase commits
ADD_PARTITIONS_AT_MOST: Final = 3  # later versions are for brokers
ONE_GROUP: Final = 7  # OffsetFetch asks for one group up to this version
EXPLICIT_OFFSETS: Final = 4  # TxnOffsetCommit
EXPLICIT_END: Final = 4  # EndTxn
IMPLICIT_OFFSETS: Final = 5
IMPLICIT_END: Final = 5


class TransactionalProducer:
    """Blocking; for one thread. A context manager that closes it, which commits nothing."""

    def __init__(self, settings: ProducerSettings, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self._settings = settings
        self._thread = LoopThread(f"producer {transactional_id}")
        self._client = ClusterClient(
            settings.bootstrap_servers,
            client_id=settings.client_id,
            clock=SystemClock(),
            random=SystemRandom(),
            security=settings.security,
            request_timeout_s=settings.request_timeout_s,
        )
        self._identity: Identity | None = None
        self._appender: Appender | None = None
        self._sequences = Sequences()
        self._filling: dict[TopicPartition, Filling] = {}
        self._joined: set[TopicPartition] = set()
        self._joining = asyncio.Lock()
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """An open transaction stays open until the next `init`, or until it times out."""
        try:
            self._thread.run(self._close())
        finally:
            self._thread.close()

    @property
    def identity(self) -> Identity:
        """For tasks that write in this producer's transaction; raises before `init`."""
        if self._identity is None:
            raise ProducerFailed(f"{self.transactional_id}: init comes first")
        return self._identity

    @property
    def is_ready(self) -> bool:
        return self._identity is not None

    def init(self) -> None:
        """Takes the transactional id; returns when earlier transactions of it have ended."""
        self._thread.run(self._init())

    def produce(self, topic: str, partition: int, records: Iterable[Record]) -> None:
        """Hands over records of the open transaction; offsets in them mean nothing.

        They travel when a batch is full, and with `commit`; an error may come with a later call.
        Memory is bounded: `records` may be a generator of any length.
        """
        self._begun()
        into = TopicPartition(topic, partition)
        filling = self._filling.setdefault(into, Filling())
        for record in records:
            if not filling.takes(record, self._settings.batch_bytes):
                self._send(into, filling)
            filling.add(record)

    def _send(self, into: TopicPartition, filling: Filling) -> None:
        records = filling.empty()
        if records:
            base = self._sequences.take(into, len(records))
            batch = transactional_batch(records, self.identity, base, self._settings)
            self._thread.run(self._appending().put(into, batch))

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Makes partitions part of the transaction that others will write to."""
        self._begun()
        if not self.identity.implicit:
            self._thread.run(self._join_all(list(partitions)))

    def send_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = ""
    ) -> None:
        """Makes a group's positions part of the transaction."""
        self._begun()
        self._thread.run(self._send_offsets(group, offsets, metadata))

    def offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        """A group's positions, once no open transaction can change them."""
        return self._thread.run(self._offsets(group, list(partitions)))

    def commit(self) -> None:
        """Makes the transaction visible, once all its records are acknowledged.

        After `CommitUncertain`, `init` and look at what the transaction would have changed.
        """
        if not self._open:
            return
        for into, filling in self._filling.items():
            self._send(into, filling)
        self._thread.run(self._commit())

    def abort(self) -> None:
        """Drops the open transaction, if there is one."""
        if self._open:
            # Taking the id anew ends whatever state the transaction is in, and its sequences.
            self.init()

    def call(self, ask: Callable[[ClusterClient], Coroutine[object, object, T]]) -> T:
        """Asks something else over this producer's connections; raises `ClientError`."""
        return self._thread.run(ask(self._client))

    def _begun(self) -> None:
        if self._identity is None:
            raise ProducerFailed(f"{self.transactional_id}: init comes first")
        self._open = True

    async def _close(self) -> None:
        if self._appender is not None:
            await self._appender.stop()
        await self._client.close()

    async def _init(self) -> None:
        if self._appender is not None:
            await self._appender.stop()
        self._identity = None
        answer = await self._ask(
            InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._settings.transaction_timeout_ms,
            ),
            InitProducerIdResponse,
            at_most=INIT_AT_MOST,
        )
        if answer.error_code:
            raise failure(code_of_number(answer.error_code), f"{self.transactional_id}: init")
        implicit = await self._is_implicit()
        self._begin(
            Identity(self.transactional_id, answer.producer_id, answer.producer_epoch, implicit),
            Sequences(),
        )

    async def _is_implicit(self) -> bool:
        answer = await self._ask(
            ApiVersionsRequest(
                client_software_name="headrace", client_software_version=__version__
            ),
            ApiVersionsResponse,
        )
        return any(
            feature.name == TRANSACTION_VERSION and feature.max_version_level >= IMPLICIT_SINCE
            for feature in answer.finalized_features
        )

    def _begin(self, identity: Identity, sequences: Sequences) -> None:
        self._identity = identity
        self._sequences = sequences
        self._joined = set()
        self._filling = {}
        join = None if identity.implicit else self._join
        self._appender = Appender(self._client, identity, self._settings, join)
        self._open = False

    def _appending(self) -> Appender:
        if self._appender is None:
            raise ProducerFailed(f"{self.transactional_id}: init comes first")
        return self._appender

    async def _join(self, partition: TopicPartition) -> None:
        await self._join_all([partition])

    async def _join_all(self, partitions: list[TopicPartition]) -> None:
        async with self._joining:
            topics: dict[str, list[int]] = {}
            for topic, index in dict.fromkeys(partitions):
                if TopicPartition(topic, index) not in self._joined:
                    topics.setdefault(topic, []).append(index)
            if not topics:
                return
            identity = self.identity
            answer = await self._ask(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=identity.producer_id,
                    v3_and_below_producer_epoch=identity.epoch,
                    v3_and_below_topics=[
                        AddPartitionsToTxnTopic(name=topic, partitions=of)
                        for topic, of in topics.items()
                    ],
                ),
                AddPartitionsToTxnResponse,
                at_most=ADD_PARTITIONS_AT_MOST,
                code_of=_adding_code,
            )
            code = code_of_number(_adding_code(answer))
            if code is not ErrorCode.NONE:
                raise failure(code, f"{self.transactional_id}: adding {', '.join(topics)}")
            self._joined.update(partitions)

    async def _send_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], metadata: str
    ) -> None:
        identity = self.identity
        what = f"{self.transactional_id}: the offsets of group {group}"
        if not identity.implicit:
            # A cluster that has had no group yet makes its coordinator when it is looked for.
            await self._ask(
                OffsetFetchRequest(group_id=group, topics=[]),
                OffsetFetchResponse,
                to=Coordinator(group),
                at_most=ONE_GROUP,
            )
            added = await self._ask(
                AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.epoch,
                    group_id=group,
                ),
                AddOffsetsToTxnResponse,
            )
            if added.error_code:
                raise failure(code_of_number(added.error_code), what)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in sorted(offsets.items()):
            each = TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            topics.setdefault(topic, []).append(each)
        answer = await self._ask(
            TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=group,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                topics=[
                    TxnOffsetCommitRequestTopic(name=name, partitions=of)
                    for name, of in topics.items()
                ],
            ),
            TxnOffsetCommitResponse,
            to=Coordinator(group),
            at_most=IMPLICIT_OFFSETS if identity.implicit else EXPLICIT_OFFSETS,
            code_of=_offsets_code,
        )
        code = code_of_number(_offsets_code(answer))
        if code is not ErrorCode.NONE:
            raise failure(code, what)

    async def _offsets(
        self, group: str, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        answer = await self._ask(
            OffsetFetchRequest(
                group_id=group,
                topics=[
                    OffsetFetchRequestTopic(name=name, partition_indexes=of)
                    for name, of in topics.items()
                ],
                require_stable=True,
            ),
            OffsetFetchResponse,
            to=Coordinator(group),
            at_most=ONE_GROUP,
            code_of=_positions_code,
        )
        code = code_of_number(_positions_code(answer))
        if code is not ErrorCode.NONE:
            raise failure(code, f"the offsets of group {group}")
        return {
            TopicPartition(topic.name, each.partition_index): Committed(
                each.committed_offset, each.committed_leader_epoch, each.metadata or ""
            )
            for topic in answer.topics
            for each in topic.partitions
            if each.committed_offset != NO_OFFSET
        }

    async def _commit(self) -> None:
        await self._appending().flush()
        identity = self.identity
        try:
            answer = await self._ask(
                EndTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.epoch,
                    committed=True,
                ),
                EndTxnResponse,
                at_most=IMPLICIT_END if identity.implicit else EXPLICIT_END,
            )
        except ProducerFailed as error:
            raise CommitUncertain(f"{self.transactional_id}: commit: {error}") from error
        if answer.error_code:
            raise failure(code_of_number(answer.error_code), f"{self.transactional_id}: commit")
        if answer.producer_id >= 0:
            renewed = identity._replace(producer_id=answer.producer_id, epoch=answer.producer_epoch)
            self._begin(renewed, Sequences())
        else:
            self._begin(identity, self._sequences)

    async def _ask(
        self,
        request: Struct,
        answer: type[R],
        *,
        to: Coordinator | None = None,
        at_most: int | None = None,
        code_of: Callable[[R], int] | None = None,
    ) -> R:
        """Asks the transaction's coordinator, or `to`, until it can say yes or no."""
        try:
            return await self._client.send(
                request,
                answer,
                to=to or Coordinator(self.transactional_id, CoordinatorKind.TRANSACTION),
                timeout_s=self._settings.delivery_timeout_s,
                at_most=at_most,
                code_of=code_of or _code,
            )
        except ClientError as error:
            raise ProducerFailed(f"{self.transactional_id}: {error}") from error


def _code(answer: Struct) -> int:
    return int(getattr(answer, "error_code", 0))


def _adding_code(answer: AddPartitionsToTxnResponse) -> int:
    codes = [
        each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    return _worst(codes)


def _offsets_code(answer: TxnOffsetCommitResponse) -> int:
    return _worst([each.error_code for topic in answer.topics for each in topic.partitions])


def _positions_code(answer: OffsetFetchResponse) -> int:
    return answer.error_code or _worst(
        [each.error_code for topic in answer.topics for each in topic.partitions]
    )


def _worst(codes: list[int]) -> int:
    """The first code that is final, else the first that is not; those not tried say nothing."""
    said = [code for code in codes if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    final = [code for code in said if not code_of_number(code).retriable]
    return next(iter(final or said), 0)
