"""Requests to a transaction's coordinators: begin, add partitions and offsets, end.

Brokers with `transaction.version` 2 (KIP-890) add partitions when they are written to and raise the
epoch with every transaction, so they reject a request that comes late. With older brokers,
partitions and groups are added beforehand.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from headrace import __version__
from headrace.client.admin.offsets import NO_OFFSET, CommittedOffset
from headrace.client.client import ClusterClient
from headrace.client.coordinators import CoordinatorKind, CoordinatorNode
from headrace.client.errors import ClientError, code_of_number
from headrace.client.results import TopicPartition, group_by_topic, indexes_by_topic
from headrace.pipeline.producer.batch_sender import TransactionIdentity
from headrace.pipeline.producer.errors import CommitUncertain, ProducerFailed, failure
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

R = TypeVar("R", bound=Struct)

TOO_LONG: Final = ErrorCode.INVALID_TRANSACTION_TIMEOUT
SHORTEST_TIMEOUT_MS: Final = 60_000
TRANSACTION_VERSION: Final = "transaction.version"
IMPLICIT_SINCE: Final = 2  # of the feature
INIT_AT_MOST: Final = 5  # later versions are for two-phase commits
ADD_PARTITIONS_AT_MOST: Final = 3  # later versions are for brokers
ONE_GROUP: Final = 7  # OffsetFetch asks for one group up to this version
EXPLICIT_OFFSETS: Final = 4  # TxnOffsetCommit
EXPLICIT_END: Final = 4  # EndTxn
IMPLICIT_OFFSETS: Final = 5
IMPLICIT_END: Final = 5


class TransactionCoordinatorClient:
    """The coordinator requests of one transactional id; runs on one event loop."""

    def __init__(
        self, client: ClusterClient, settings: ProducerSettings, transactional_id: str
    ) -> None:
        self._client = client
        self._settings = settings
        self._id = transactional_id
        self._timeout_ms = settings.transaction_timeout_ms
        self._joined: set[TopicPartition] = set()
        self._joining = asyncio.Lock()

    async def init(self) -> TransactionIdentity:
        """Takes over the transactional id; returns when its earlier transactions have ended."""
        self._joined.clear()
        answer = await self._init(self._timeout_ms)
        while answer.error_code == TOO_LONG and self._timeout_ms > SHORTEST_TIMEOUT_MS:
            # Brokers with a lower limit do not return the limit.
            self._timeout_ms //= 3
            answer = await self._init(self._timeout_ms)
        _raise_refusal(answer.error_code, f"{self._id}: init")
        implicit = await self._is_implicit()
        return TransactionIdentity(self._id, answer.producer_id, answer.producer_epoch, implicit)

    async def _init(self, timeout_ms: int) -> InitProducerIdResponse:
        return await self._ask(
            InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=timeout_ms),
            InitProducerIdResponse,
            at_most=INIT_AT_MOST,
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

    async def add_partitions(
        self, identity: TransactionIdentity, partitions: Iterable[TopicPartition]
    ) -> None:
        """Adds partitions to the transaction, if writing to them does not add them."""
        wanted = list(dict.fromkeys(partitions))
        async with self._joining:
            topics = indexes_by_topic(each for each in wanted if each not in self._joined)
            if not topics:
                return
            answer = await self._ask(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self._id,
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
            _raise_refusal(_adding_code(answer), f"{self._id}: adding {', '.join(topics)}")
            self._joined.update(wanted)

    async def send_offsets(
        self,
        identity: TransactionIdentity,
        group: str,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
    ) -> None:
        what = f"{self._id}: the offsets of group {group}"
        if not identity.implicit:
            # The first lookup in a cluster without groups creates the group coordinator.
            await self._ask(
                OffsetFetchRequest(group_id=group, topics=[]),
                OffsetFetchResponse,
                to=CoordinatorNode(group),
                at_most=ONE_GROUP,
            )
            added = await self._ask(
                AddOffsetsToTxnRequest(
                    transactional_id=self._id,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.epoch,
                    group_id=group,
                ),
                AddOffsetsToTxnResponse,
            )
            _raise_refusal(added.error_code, what)
        topics = group_by_topic(
            sorted(offsets),
            lambda each: TxnOffsetCommitRequestPartition(
                partition_index=each.partition,
                committed_offset=offsets[each],
                committed_metadata=metadata,
            ),
        )
        answer = await self._ask(
            TxnOffsetCommitRequest(
                transactional_id=self._id,
                group_id=group,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                topics=[
                    TxnOffsetCommitRequestTopic(name=name, partitions=of)
                    for name, of in topics.items()
                ],
            ),
            TxnOffsetCommitResponse,
            to=CoordinatorNode(group),
            at_most=IMPLICIT_OFFSETS if identity.implicit else EXPLICIT_OFFSETS,
            code_of=_offsets_code,
        )
        _raise_refusal(_offsets_code(answer), what)

    async def offsets(
        self, group: str, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        answer = await self._ask(
            OffsetFetchRequest(
                group_id=group,
                topics=[
                    OffsetFetchRequestTopic(name=name, partition_indexes=of)
                    for name, of in indexes_by_topic(partitions).items()
                ],
                require_stable=True,
            ),
            OffsetFetchResponse,
            to=CoordinatorNode(group),
            at_most=ONE_GROUP,
            code_of=_positions_code,
        )
        _raise_refusal(_positions_code(answer), f"the offsets of group {group}")
        return {
            TopicPartition(topic.name, each.partition_index): CommittedOffset(
                each.committed_offset, each.committed_leader_epoch, each.metadata or ""
            )
            for topic in answer.topics
            for each in topic.partitions
            if each.committed_offset != NO_OFFSET
        }

    async def commit(self, identity: TransactionIdentity) -> TransactionIdentity:
        """Ends the transaction; returns the next identity. Raises `CommitUncertain`."""
        try:
            answer = await self._ask(
                EndTxnRequest(
                    transactional_id=self._id,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.epoch,
                    committed=True,
                ),
                EndTxnResponse,
                at_most=IMPLICIT_END if identity.implicit else EXPLICIT_END,
            )
        except ProducerFailed as error:
            raise CommitUncertain(f"{self._id}: commit: {error}") from error
        _raise_refusal(answer.error_code, f"{self._id}: commit")
        self._joined.clear()
        if answer.producer_id >= 0:
            return identity._replace(producer_id=answer.producer_id, epoch=answer.producer_epoch)
        return identity

    async def _ask(
        self,
        request: Struct,
        answer: type[R],
        *,
        to: CoordinatorNode | None = None,
        at_most: int | None = None,
        code_of: Callable[[R], int] | None = None,
    ) -> R:
        """Sends a request to the transaction's coordinator, or `to`, until the answer is final."""
        try:
            return await self._client.send(
                request,
                answer,
                to=to or CoordinatorNode(self._id, CoordinatorKind.TRANSACTION),
                timeout_s=self._settings.delivery_timeout_s,
                at_most=at_most,
                code_of=code_of or _code,
            )
        except ClientError as error:
            raise ProducerFailed(f"{self._id}: {error}") from error


def _raise_refusal(number: int, what: str) -> None:
    """Raises the error of a code other than NONE; `what` failed."""
    code = code_of_number(number)
    if code is not ErrorCode.NONE:
        raise failure(code, what)


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
    """The first final code, else the first retriable one; OPERATION_NOT_ATTEMPTED is ignored."""
    said = [code for code in codes if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    final = [code for code in said if not code_of_number(code).retriable]
    return next(iter(final or said), 0)
