"""A transactional producer that sends exactly the given requests, in either protocol version."""

import uuid

from headrace.coordinator.common.result import ProducerIdentity
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
from headrace.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
)
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from headrace.records.batch_header import read_header
from support.waiting import wait_for
from support.wire.batches import batch, fetch, fetch_request, produce, records_of, whole_batches
from support.wire.connection import Wire

GROUP_KEY = 0
TRANSACTION_KEY = 1
READ_COMMITTED = 1
FETCH_STABLE_VERSION = 9
NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class V1:
    """Kafka's first protocol: the client adds partitions, and the epoch stays the same."""

    produce = 10
    end = 3
    commit_offsets = 3
    adds = True


class V2:
    """KIP-890: a write adds its partition, and the end of a transaction raises the epoch."""

    produce = 12
    end = 5
    commit_offsets = 5
    adds = False


Protocol = type[V1] | type[V2]


def find_coordinator(wire: Wire, key: str, key_type: int = TRANSACTION_KEY) -> None:
    """Waits until the key has a coordinator that answers."""
    request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)

    def found() -> bool:
        (one,) = wire.call(request, FindCoordinatorResponse).coordinators
        return not one.error_code

    wait_for(found, f"a coordinator for {key}")


class TransactionalProducer:
    """One producer: `producer` is its id and epoch, `sequences` the next sequence per partition."""

    def __init__(
        self, wire: Wire, protocol: Protocol = V2, transactional_id: str | None = None
    ) -> None:
        self.wire = wire
        self.protocol = protocol
        self.transactional_id = transactional_id or f"txn-{uuid.uuid4().hex}"
        self.producer = ProducerIdentity(-1, -1)
        self.sequences: dict[tuple[str, int], int] = {}
        find_coordinator(wire, self.transactional_id)

    # --- identity -------------------------------------------------------------------------------

    def init(self, *, timeout_ms: int = 60_000) -> "TransactionalProducer":
        """Takes over the transactional id, with retries."""

        def initialised() -> bool:
            code = self.try_init(timeout_ms=timeout_ms)
            assert code in (ErrorCode.NONE, *NOT_YET), code
            return code is ErrorCode.NONE

        wait_for(initialised, "an identity", deadline_s=60)
        return self

    def try_init(self, *, timeout_ms: int = 60_000, version: int = 5) -> ErrorCode:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        answer = self.wire.call(request, InitProducerIdResponse, version)
        if not answer.error_code:
            self.become(ProducerIdentity(answer.producer_id, answer.producer_epoch))
        return ErrorCode(answer.error_code)

    def become(self, producer: ProducerIdentity) -> None:
        self.producer = producer
        self.sequences.clear()

    # --- a transaction --------------------------------------------------------------------------

    def add(self, *partitions: tuple[str, int], version: int = 3) -> ErrorCode:
        """Adds partitions; returns the first error, if there is one."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=[index])
                for topic, index in partitions
            ],
        )
        answer = self.wire.call(request, AddPartitionsToTxnResponse, version)
        codes = [
            ErrorCode(one.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]
        return next((code for code in codes if code), ErrorCode.NONE)

    def send(
        self, topic: str, *values: bytes, partition: int = 0, version: int | None = None
    ) -> ErrorCode:
        """Sends one batch with the next sequence; in V1, adds the partition first."""
        if self.protocol.adds:
            code = self.add((topic, partition))
            if code:
                return code
        return self.send_only(topic, *values, partition=partition, version=version)

    def send_only(
        self, topic: str, *values: bytes, partition: int = 0, version: int | None = None
    ) -> ErrorCode:
        """Like `send`, without adding the partition."""
        where = (topic, partition)
        sequence = self.sequences.get(where, 0)
        records = batch(
            *values,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        result = produce(
            self.wire,
            topic,
            records,
            partition=partition,
            version=self.protocol.produce if version is None else version,
            transactional_id=self.transactional_id,
        )
        if not result.error_code:
            self.sequences[where] = sequence + len(values)
        return ErrorCode(result.error_code)

    def try_end(
        self, *, commit: bool, version: int | None = None
    ) -> tuple[ErrorCode, ProducerIdentity]:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=commit,
        )
        answer = self.wire.call(
            request, EndTxnResponse, self.protocol.end if version is None else version
        )
        return ErrorCode(answer.error_code), ProducerIdentity(
            answer.producer_id, answer.producer_epoch
        )

    def end(self, *, commit: bool) -> None:
        """Ends the transaction and takes the identity in the response."""

        def ended() -> bool:
            code, producer = self.try_end(commit=commit)
            assert code in (ErrorCode.NONE, *NOT_YET), code
            if code is ErrorCode.NONE and producer.producer_id >= 0:
                self.become(producer)
            return code is ErrorCode.NONE

        wait_for(ended, "the end of a transaction", deadline_s=60)
        self.settle()

    def settle(self) -> None:
        """Waits for the markers. Kafka writes them after its response to EndTxn."""
        wait_for(
            lambda: not self.describe().transaction_state.startswith(("Prepare", "Ongoing")),
            "the markers of a transaction",
            deadline_s=60,
        )

    def commit(self) -> None:
        self.end(commit=True)

    def abort(self) -> None:
        self.end(commit=False)

    # --- offsets --------------------------------------------------------------------------------

    def add_offsets(self, group_id: str, version: int = 3) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            group_id=group_id,
        )
        return ErrorCode(self.wire.call(request, AddOffsetsToTxnResponse, version).error_code)

    def commit_offset(
        self, group_id: str, topic: str, offset: int, version: int | None = None
    ) -> ErrorCode:
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                    ],
                )
            ],
        )
        chosen = self.protocol.commit_offsets if version is None else version
        (answered,) = self.wire.call(request, TxnOffsetCommitResponse, chosen).topics
        return ErrorCode(answered.partitions[0].error_code)

    # --- the coordinator's state ----------------------------------------------------------------

    def describe(self) -> DescribeTransactionsTransactionState:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        (state,) = self.wire.call(request, DescribeTransactionsResponse).transaction_states
        return state


def committed_offset(
    wire: Wire, group_id: str, topic: str, *, stable: bool = True
) -> OffsetFetchResponsePartitions:
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id,
                topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
            )
        ],
        require_stable=stable,
    )
    (group,) = wire.call(request, OffsetFetchResponse, FETCH_STABLE_VERSION).groups
    if group.error_code:  # the error applies to every partition
        return OffsetFetchResponsePartitions(error_code=group.error_code, committed_offset=-1)
    return group.topics[0].partitions[0]


def read_committed(wire: Wire, topic: str, *, partition: int = 0) -> list[bytes | None]:
    """The values that a read_committed consumer gets: no aborted or open records, no markers."""
    data = fetch(wire, fetch_request(topic, partition=partition, isolation_level=READ_COMMITTED))
    aborted = sorted(
        ((one.first_offset, one.producer_id) for one in data.aborted_transactions or ()),
    )
    values: list[bytes | None] = []
    open_aborts: set[int] = set()
    for one in whole_batches(data.records):
        header = read_header(one)
        while aborted and aborted[0][0] <= header.last_offset:
            open_aborts.add(aborted.pop(0)[1])
        if header.is_control:
            open_aborts.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborts):
            values += [record.value for record in records_of(one)]
    return values
