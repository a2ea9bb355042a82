"""Transaction administration: list, describe, find producers, abort."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.broker_requests import Listing, list_at_brokers
from headrace.client.client import ClusterClient, ToBroker, ToLeader
from headrace.client.coordinator_request import send_to_coordinator
from headrace.client.coordinators import CoordinatorKind, CoordinatorNode
from headrace.client.errors import check_error_code
from headrace.client.leader_requests import Answers, send_to_leaders
from headrace.client.results import Refusal, TopicPartition, indexes_by_topic, refusal, refused
from headrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
)
from headrace.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from headrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NO_TRANSACTION = -1
OPEN_STATES: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
"""The states of a transaction that has not ended."""
_FENCING_TIMEOUT_MS = 1  # fencing does not start a transaction, so any timeout works


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """One listed transactional id."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transactional id and its last transaction; `start_ms` is -1 before the first one."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]

    def open_for_ms(self, now_ms: int) -> int | None:
        """The age of the open transaction; None if there is none.

        Coordinators keep the start of a transaction after its end.
        """
        if self.state not in OPEN_STATES or self.start_ms < 0:
            return None
        return max(0, now_ms - self.start_ms)


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A partition's state of a producer; the start is -1 outside a transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    transaction_start: int


async def list_transactions(
    client: ClusterClient,
    *,
    timeout_s: float,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int = -1,
) -> Listing[ListedTransaction]:
    """The transactional ids of all coordinators that answer, sorted."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=longer_than_ms,
    )

    async def ask(broker: int, limit_s: float) -> list[ListedTransaction]:
        return await list_transactions_of(client, broker, request, timeout_s=limit_s)

    found = await list_at_brokers(client, ask, timeout_s=timeout_s)
    return Listing(sorted(found.items, key=lambda each: each.transactional_id), found.failures)


async def list_transactions_of(
    client: ClusterClient,
    broker: int,
    request: ListTransactionsRequest | None = None,
    *,
    timeout_s: float,
) -> list[ListedTransaction]:
    """The transactional ids that one broker coordinates; raises `RequestRefused`."""
    answer = await client.send(
        request or ListTransactionsRequest(),
        ListTransactionsResponse,
        to=ToBroker(broker),
        timeout_s=timeout_s,
    )
    check_error_code(answer.error_code, f"cannot list the transactions of broker {broker}")
    return [
        ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state, broker)
        for each in answer.transaction_states
    ]


async def describe_transaction(
    client: ClusterClient, transactional_id: str, *, timeout_s: float
) -> TransactionDescription | Refusal:
    """Describes one transactional id, as its coordinator reports it."""
    found = await send_to_coordinator(
        CoordinatorNode(transactional_id, CoordinatorKind.TRANSACTION),
        client,
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        DescribeTransactionsResponse,
        lambda got: got.transaction_states,
        timeout_s=timeout_s,
    )
    return _described(found)


async def describe_transactions_of(
    client: ClusterClient, transactional_ids: Sequence[str], coordinator: int, *, timeout_s: float
) -> dict[str, TransactionDescription | Refusal]:
    """Describes several transactional ids of one coordinator, in one request."""
    answer = await client.send(
        DescribeTransactionsRequest(transactional_ids=list(transactional_ids)),
        DescribeTransactionsResponse,
        to=ToBroker(coordinator),
        timeout_s=timeout_s,
    )
    return {each.transactional_id: _described(each) for each in answer.transaction_states}


def _described(found: DescribeTransactionsTransactionState) -> TransactionDescription | Refusal:
    if found.error_code:
        return refused(found.error_code)
    return TransactionDescription(
        found.transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.transaction_state,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms,
        tuple(
            TopicPartition(topic.topic, index)
            for topic in found.topics
            for index in topic.partitions
        ),
    )


async def fence(client: ClusterClient, transactional_id: str, *, timeout_s: float) -> None:
    """Fences the producer with InitProducerId, which aborts its open transaction.

    Raises `RequestRefused`.
    """
    answer = await client.send(
        InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS
        ),
        InitProducerIdResponse,
        to=CoordinatorNode(transactional_id, CoordinatorKind.TRANSACTION),
        timeout_s=timeout_s,
    )
    check_error_code(answer.error_code, f"cannot fence the producer {transactional_id!r}")


async def describe_producers(
    client: ClusterClient, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> dict[TopicPartition, list[ActiveProducer] | Refusal]:
    """The producers known to the leaders of these partitions."""

    async def send(leader: int, led: Sequence[TopicPartition]) -> Answers[list[ActiveProducer]]:
        request = DescribeProducersRequest(
            topics=[
                DescribeProducersTopicRequest(name=name, partition_indexes=indexes)
                for name, indexes in indexes_by_topic(led).items()
            ]
        )
        answer = await client.send(
            request,
            DescribeProducersResponse,
            to=ToBroker(leader),
            timeout_s=timeout_s,
            retry=False,
        )
        return {
            TopicPartition(topic.name, each.partition_index): (
                refused(each.error_code, each.error_message)
                if each.error_code
                else [
                    ActiveProducer(
                        one.producer_id,
                        one.producer_epoch,
                        one.coordinator_epoch,
                        one.last_sequence,
                        one.last_timestamp,
                        one.current_txn_start_offset,
                    )
                    for one in each.active_producers
                ]
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    return await send_to_leaders(client, partitions, send, timeout_s=timeout_s)


async def write_abort_marker(
    client: ClusterClient, partition: TopicPartition, producer: ActiveProducer, *, timeout_s: float
) -> Refusal | None:
    """Aborts a transaction in one partition without its coordinator; only for hanging ones."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        coordinator_epoch=max(producer.coordinator_epoch, 0),
        topics=[
            WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])
        ],
    )
    answer = await client.send(
        WriteTxnMarkersRequest(markers=[marker]),
        WriteTxnMarkersResponse,
        to=ToLeader(*partition),
        timeout_s=timeout_s,
        code_of=_marker_code,
    )
    return refusal(_marker_code(answer))


def _marker_code(answer: WriteTxnMarkersResponse) -> int:
    return next(
        (
            each.error_code
            for marker in answer.markers
            for topic in marker.topics
            for each in topic.partitions
        ),
        0,
    )
