"""Transactions over the wire, in both protocol versions: writes, visibility and errors."""

from collections.abc import Callable

import pytest

from headrace.coordinator.common.result import ProducerIdentity
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
    ProducerState,
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
from support.wire.batches import batch, fetch, fetch_request, produce, topic_id_of, values_of
from support.wire.connection import Wire
from support.wire.topics import MakeTopic
from support.wire.transactional_producer import (
    GROUP_KEY,
    READ_COMMITTED,
    V1,
    V2,
    Protocol,
    TransactionalProducer,
    committed_offset,
    find_coordinator,
    read_committed,
)

BOTH = pytest.mark.parametrize("protocol", [V1, V2])
NewName = Callable[[], str]


def stable_and_end(wire: Wire, topic: str) -> tuple[int, int]:
    data = fetch(wire, fetch_request(topic, isolation_level=READ_COMMITTED))
    return data.last_stable_offset, data.high_watermark


def producers_of(wire: Wire, topic: str) -> list[ProducerState]:
    request = DescribeProducersRequest(
        topics=[DescribeProducersTopicRequest(name=topic, partition_indexes=[0])]
    )
    (answered,) = wire.call(request, DescribeProducersResponse).topics
    return answered.partitions[0].active_producers


# --- commit and abort -----------------------------------------------------------------------------


@BOTH
def test_records_are_committed_together_in_all_partitions(
    wire: Wire, make_topic: MakeTopic, protocol: Protocol
) -> None:
    topic = make_topic(2)
    producer = TransactionalProducer(wire, protocol).init()
    assert not producer.send(topic, b"a", b"b", partition=0)
    assert not producer.send(topic, b"c", partition=1)
    assert read_committed(wire, topic) == read_committed(wire, topic, partition=1) == []
    assert stable_and_end(wire, topic) == (0, 2)
    producer.commit()
    assert read_committed(wire, topic) == [b"a", b"b"]
    assert read_committed(wire, topic, partition=1) == [b"c"]
    assert stable_and_end(wire, topic) == (3, 3)  # the marker has an offset


@BOTH
def test_an_aborted_transaction_is_listed_and_leaves_nothing_to_read(
    wire: Wire, topic: str, protocol: Protocol
) -> None:
    producer = TransactionalProducer(wire, protocol).init()
    first = producer.producer
    assert not producer.send(topic, b"no")
    producer.abort()
    assert not producer.send(topic, b"yes")
    producer.commit()
    data = fetch(wire, fetch_request(topic, isolation_level=READ_COMMITTED))
    (aborted,) = data.aborted_transactions or []
    assert (aborted.producer_id, aborted.first_offset) == (first.producer_id, 0)
    assert read_committed(wire, topic) == [b"yes"]
    uncommitted = fetch(wire, fetch_request(topic))
    assert [value for value in values_of(uncommitted.records) if value in (b"no", b"yes")] == [
        b"no",
        b"yes",
    ]
    assert uncommitted.aborted_transactions is None


@BOTH
def test_readers_wait_for_the_earliest_open_transaction(
    wire: Wire, topic: str, protocol: Protocol
) -> None:
    slow = TransactionalProducer(wire, protocol).init()
    fast = TransactionalProducer(wire, protocol).init()
    assert not slow.send(topic, b"slow")
    assert not fast.send(topic, b"fast")
    fast.commit()
    assert read_committed(wire, topic) == []
    slow.abort()
    assert read_committed(wire, topic) == [b"fast"]


@BOTH
def test_a_waiting_fetch_is_woken_by_the_commit_and_not_by_open_records(
    wire: Wire, connect: Callable[[], Wire], topic: str, protocol: Protocol
) -> None:
    producer = TransactionalProducer(wire, protocol).init()
    reader = connect()
    patient = fetch_request(topic, isolation_level=READ_COMMITTED, max_wait_ms=30_000)
    sent = reader.send(patient, 12)
    assert not producer.send(topic, b"a")
    assert not producer.send(topic, b"b")
    producer.commit()
    correlation_id, response = reader.receive(APIS[ApiKey.FETCH], 12)
    assert correlation_id == sent
    data = response.responses[0].partitions[0]  # type: ignore[attr-defined]
    assert values_of(data.records)[:2] == [b"a", b"b"]


def test_a_fetch_with_large_min_bytes_is_woken_by_the_commit_marker(
    wire: Wire, connect: Callable[[], Wire], topic: str
) -> None:
    producer = TransactionalProducer(wire).init()
    assert not producer.send(topic, b"x" * 5_000)
    reader = connect()
    wants_many = fetch_request(
        topic, isolation_level=READ_COMMITTED, max_wait_ms=60_000, min_bytes=3_000
    )
    reader.send(wants_many, 12)
    producer.commit()
    _, response = reader.receive(APIS[ApiKey.FETCH], 12)
    data = response.responses[0].partitions[0]  # type: ignore[attr-defined]
    assert values_of(data.records)[0] == b"x" * 5_000


def test_topic_ids_work_in_transactions(wire: Wire, topic: str) -> None:
    producer = TransactionalProducer(wire).init()
    identity = producer.producer
    records = batch(
        b"a",
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=0,
        is_transactional=True,
    )
    result = produce(
        wire,
        topic,
        records,
        version=13,
        topic_id=topic_id_of(wire, topic),
        transactional_id=producer.transactional_id,
    )
    assert not result.error_code
    producer.commit()
    assert read_committed(wire, topic) == [b"a"]


# --- the epoch ------------------------------------------------------------------------------------


def test_version_2_bumps_the_epoch_at_every_end_and_a_retry_gets_the_same_epoch(
    wire: Wire, topic: str
) -> None:
    producer = TransactionalProducer(wire).init()
    first = producer.producer
    assert not producer.send(topic, b"a")
    code, after = producer.try_end(commit=True)
    assert (code, after) == (ErrorCode.NONE, ProducerIdentity(first.producer_id, first.epoch + 1))
    producer.settle()
    assert producer.try_end(commit=True) == (ErrorCode.NONE, after)
    assert producer.try_end(commit=False)[0] is ErrorCode.INVALID_TXN_STATE
    producer.become(after)
    # Nothing was written: there is nothing to commit, but an abort is fine.
    assert producer.try_end(commit=True)[0] is ErrorCode.INVALID_TXN_STATE
    assert producer.try_end(commit=False) == (
        ErrorCode.NONE,
        ProducerIdentity(first.producer_id, first.epoch + 2),
    )


def test_version_1_keeps_the_epoch_and_accepts_a_retry(wire: Wire, topic: str) -> None:
    producer = TransactionalProducer(wire, V1).init()
    assert producer.try_end(commit=True)[0] is ErrorCode.INVALID_TXN_STATE
    assert not producer.send(topic, b"a")
    for _ in range(2):
        assert producer.try_end(commit=True) == (ErrorCode.NONE, ProducerIdentity(-1, -1))
        producer.settle()
    assert producer.try_end(commit=False)[0] is ErrorCode.INVALID_TXN_STATE
    assert not producer.send(topic, b"b")


# --- hanging transactions cannot be made ----------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_TXN_STATE), (10, ErrorCode.INVALID_TXN_STATE),
     (11, ErrorCode.TRANSACTION_ABORTABLE)],
)  # fmt: skip
def test_a_partition_that_was_not_added_rejects_records(
    wire: Wire, topic: str, version: int, code: ErrorCode
) -> None:
    producer = TransactionalProducer(wire, V1).init()
    assert producer.send_only(topic, b"a", version=version) is code
    assert stable_and_end(wire, topic) == (0, 0)


@pytest.mark.parametrize("commit", [True, False])
def test_a_late_batch_of_version_1_is_rejected_after_the_end(
    wire: Wire, topic: str, commit: bool
) -> None:
    producer = TransactionalProducer(wire, V1).init()
    assert not producer.send(topic, b"a")
    producer.end(commit=commit)
    assert producer.send_only(topic, b"late") is ErrorCode.INVALID_TXN_STATE
    assert stable_and_end(wire, topic) == (2, 2)


@pytest.mark.parametrize("commit", [True, False])
def test_a_late_batch_of_version_2_is_rejected_after_the_end(
    wire: Wire, make_topic: MakeTopic, commit: bool
) -> None:
    topic = make_topic(2)
    producer = TransactionalProducer(wire).init()
    assert not producer.send(topic, b"a")
    code, _ = producer.try_end(commit=commit)
    assert not code
    producer.settle()
    # In a partition with the transaction, and in one that must verify with the coordinator.
    assert producer.send(topic, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.send(topic, b"late", partition=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert stable_and_end(wire, topic) == (2, 2)
    assert producer.describe().transaction_state.startswith("Complete")


def test_version_2_starts_every_partition_at_sequence_0(wire: Wire, topic: str) -> None:
    producer = TransactionalProducer(wire).init()
    producer.sequences[topic, 0] = 5
    assert producer.send(topic, b"a") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_transactional_records_need_a_transactional_id(wire: Wire, topic: str) -> None:
    producer = TransactionalProducer(wire).init()
    records = batch(
        b"a",
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.epoch,
        base_sequence=0,
        is_transactional=True,
    )
    refused = produce(wire, topic, records)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_an_unknown_transactional_id_cannot_write(
    wire: Wire, topic: str, new_name: NewName
) -> None:
    producer = TransactionalProducer(wire)
    producer.become(ProducerIdentity(4_000_000, 0))
    assert producer.send(topic, b"a") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_transaction_and_plain_batches_of_one_producer_do_not_mix(wire: Wire, topic: str) -> None:
    producer = TransactionalProducer(wire).init()
    assert not producer.send(topic, b"a")
    plain = batch(
        b"b",
        producer_id=producer.producer.producer_id,
        producer_epoch=producer.producer.epoch,
        base_sequence=1,
    )
    refused = produce(wire, topic, plain, transactional_id=producer.transactional_id)
    assert refused.error_code == ErrorCode.INVALID_TXN_STATE


# --- fencing --------------------------------------------------------------------------------------


@BOTH
def test_a_new_producer_aborts_and_fences_the_old_one(
    wire: Wire, topic: str, protocol: Protocol
) -> None:
    old = TransactionalProducer(wire, protocol).init()
    assert not old.send(topic, b"old")
    new = TransactionalProducer(wire, protocol, old.transactional_id)
    assert new.try_init() is ErrorCode.CONCURRENT_TRANSACTIONS
    new.init()
    assert new.producer.epoch > old.producer.epoch
    assert old.send_only(topic, b"zombie") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.add((topic, 0), version=3) is ErrorCode.PRODUCER_FENCED
    assert old.add((topic, 0), version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.try_end(commit=True, version=2)[0] is ErrorCode.PRODUCER_FENCED
    assert old.try_end(commit=True, version=1)[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    assert not new.send(topic, b"new")
    new.commit()
    assert read_committed(wire, topic) == [b"new"]


def test_old_versions_get_invalid_producer_epoch_instead_of_producer_fenced(wire: Wire) -> None:
    old = TransactionalProducer(wire).init()
    TransactionalProducer(wire, V2, old.transactional_id).init()
    request = InitProducerIdRequest(
        transactional_id=old.transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=old.producer.producer_id,
        producer_epoch=old.producer.epoch,
    )
    for version, code in (
        (3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, ErrorCode.PRODUCER_FENCED),
        (5, ErrorCode.PRODUCER_FENCED),
    ):
        assert wire.call(request, InitProducerIdResponse, version).error_code == code


def test_a_timeout_above_the_brokers_maximum_is_rejected(wire: Wire) -> None:
    producer = TransactionalProducer(wire)
    assert producer.try_init(timeout_ms=900_001) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert producer.try_init(timeout_ms=0) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


# --- AddPartitionsToTxn ---------------------------------------------------------------------------


def test_one_invalid_partition_keeps_all_out_of_the_transaction(
    wire: Wire, topic: str, new_name: NewName
) -> None:
    producer = TransactionalProducer(wire, V1).init()
    unknown = new_name()
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer.producer_id,
        v3_and_below_producer_epoch=producer.producer.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=[0, 9]),
            AddPartitionsToTxnTopic(name=unknown, partitions=[0]),
        ],
    )
    answer = wire.call(request, AddPartitionsToTxnResponse, 3)
    codes = {
        (one.name, result.partition_index): result.partition_error_code
        for one in answer.results_by_topic_v3_and_below
        for result in one.results_by_partition
    }
    assert codes == {
        (topic, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        (topic, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (unknown, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert producer.describe().transaction_state == "Empty"


def test_clients_cannot_add_internal_topics(wire: Wire) -> None:
    producer = TransactionalProducer(wire, V1).init()
    code = producer.add(("__transaction_state", 0))
    assert code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_add_and_verify_many_transactions_at_once(
    wire: Wire, topic: str, version: int
) -> None:
    one = TransactionalProducer(wire).init()
    two = TransactionalProducer(wire).init()
    assert not one.send(topic, b"a")

    def asked(producer: TransactionalProducer, *, verify: bool) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer.producer_id,
            producer_epoch=producer.producer.epoch,
            verify_only=verify,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )

    def codes(*transactions: AddPartitionsToTxnTransaction) -> list[int]:
        request = AddPartitionsToTxnRequest(transactions=list(transactions))
        answer = wire.call(request, AddPartitionsToTxnResponse, version)
        return [
            result.topic_results[0].results_by_partition[0].partition_error_code
            for result in answer.results_by_transaction
        ]

    assert codes(asked(one, verify=True), asked(two, verify=True)) == [
        ErrorCode.NONE,
        ErrorCode.TRANSACTION_ABORTABLE,
    ]
    assert codes(asked(one, verify=True), asked(two, verify=False)) == [0, 0]
    assert two.describe().transaction_state == "Ongoing"


# --- offsets --------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_are_visible_when_the_transaction_commits(
    wire: Wire, topic: str, new_name: NewName, protocol: Protocol, commit: bool
) -> None:
    group_id = new_name()
    find_coordinator(wire, group_id, GROUP_KEY)
    producer = TransactionalProducer(wire, protocol).init()
    if protocol.adds:
        assert not producer.add_offsets(group_id)
    assert not producer.commit_offset(group_id, topic, 42)
    pending = committed_offset(wire, group_id, topic)
    assert pending.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert committed_offset(wire, group_id, topic, stable=False).committed_offset == -1
    producer.end(commit=commit)
    after = committed_offset(wire, group_id, topic)
    assert (after.error_code, after.committed_offset) == (0, 42 if commit else -1)


@pytest.mark.parametrize(
    ("version", "code"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_offsets_outside_the_transaction_are_rejected(
    wire: Wire, topic: str, new_name: NewName, version: int, code: ErrorCode
) -> None:
    group_id = new_name()
    find_coordinator(wire, group_id, GROUP_KEY)
    producer = TransactionalProducer(wire, V1).init()
    assert producer.commit_offset(group_id, topic, 1, version=version) is code
    assert committed_offset(wire, group_id, topic).error_code == 0


def test_offsets_of_a_fenced_producer_are_rejected(
    wire: Wire, topic: str, new_name: NewName
) -> None:
    group_id = new_name()
    find_coordinator(wire, group_id, GROUP_KEY)
    old = TransactionalProducer(wire).init()
    TransactionalProducer(wire, V2, old.transactional_id).init()
    assert old.commit_offset(group_id, topic, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.add_offsets(group_id) is ErrorCode.PRODUCER_FENCED
    assert old.add_offsets(group_id, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH


# --- tools ----------------------------------------------------------------------------------------


def test_open_transactions_are_listed_and_described(wire: Wire, topic: str) -> None:
    producer = TransactionalProducer(wire).init()
    assert producer.describe().transaction_state == "Empty"
    assert not producer.send(topic, b"a")
    state = producer.describe()
    assert (state.transaction_state, state.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert (state.producer_id, state.producer_epoch) == producer.producer
    assert [(one.topic, one.partitions) for one in state.topics] == [(topic, [0])]
    assert state.transaction_start_time_ms > 0
    listing = ListTransactionsRequest(
        state_filters=["Ongoing"],
        producer_id_filters=[producer.producer.producer_id],
        transactional_id_pattern=producer.transactional_id[:10] + ".*",
    )
    listed = wire.call(listing, ListTransactionsResponse)
    assert [one.transactional_id for one in listed.transaction_states] == [
        producer.transactional_id
    ]
    (known,) = producers_of(wire, topic)
    assert (known.current_txn_start_offset, known.producer_epoch) == (0, producer.producer.epoch)
    producer.commit()
    (known,) = producers_of(wire, topic)
    assert known.current_txn_start_offset == -1
    assert known.coordinator_epoch >= 0


def test_unknown_ids_and_bad_patterns_are_errors(wire: Wire, new_name: NewName) -> None:
    producer = TransactionalProducer(wire, V2, new_name())
    assert producer.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    listed = wire.call(
        ListTransactionsRequest(transactional_id_pattern="(("), ListTransactionsResponse
    )
    assert listed.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def markers(
    wire: Wire, topic: str, producer: ProducerIdentity, *, coordinator_epoch: int, version: int = 1
) -> ErrorCode:
    """An abort marker, as a tool or another broker sends it."""
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
                coordinator_epoch=coordinator_epoch,
                transaction_version=2 if version == 2 else 0,
            )
        ]
    )
    (result,) = wire.call(request, WriteTxnMarkersResponse, version).markers
    assert result.producer_id == producer.producer_id
    return ErrorCode(result.topics[0].partitions[0].error_code)


def test_an_abort_marker_ends_a_transaction_in_one_partition(
    wire: Wire, topic: str, new_name: NewName
) -> None:
    producer = TransactionalProducer(wire).init()
    assert not producer.send(topic, b"a")
    identity = producer.producer
    # A marker of version 2 must have an epoch that the transaction did not have.
    same = markers(wire, topic, identity, coordinator_epoch=5, version=2)
    assert same is ErrorCode.INVALID_PRODUCER_EPOCH
    assert not markers(wire, topic, identity, coordinator_epoch=5)
    assert stable_and_end(wire, topic) == (2, 2)
    stale = markers(wire, topic, identity, coordinator_epoch=4)
    assert stale is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    unknown = markers(wire, new_name(), identity, coordinator_epoch=5)
    assert unknown is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@BOTH
def test_a_transaction_ends_after_one_of_its_topics_is_deleted(
    wire: Wire, make_topic: MakeTopic, protocol: Protocol
) -> None:
    kept, gone = make_topic(), make_topic()
    producer = TransactionalProducer(wire, protocol).init()
    assert not producer.send(gone, b"a")
    assert not producer.send(kept, b"b")
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=gone)], timeout_ms=10_000)
    wire.call(request, DeleteTopicsResponse)
    producer.commit()
    assert read_committed(wire, kept) == [b"b"]
    assert producer.describe().transaction_state == "CompleteCommit"


def test_a_fetch_lists_only_aborted_transactions_in_its_range(wire: Wire, topic: str) -> None:
    producer = TransactionalProducer(wire).init()
    for number in range(6):
        assert not producer.send(topic, b"%d" % number * 500)
        producer.end(commit=number % 2 == 0)
    request = fetch_request(topic, isolation_level=READ_COMMITTED, partition_max_bytes=1300)
    # Offsets 0-1 commit, 2-3 abort, 4-5 commit: the limit is in the second transaction.
    first = fetch(wire, request)
    assert [one.first_offset for one in first.aborted_transactions or []] == [2]
    rest = fetch(wire, fetch_request(topic, 4, isolation_level=READ_COMMITTED))
    assert [one.first_offset for one in rest.aborted_transactions or []] == [6, 10]
    assert read_committed(wire, topic) == [b"%d" % number * 500 for number in (0, 2, 4)]
