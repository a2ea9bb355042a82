"""Fetch, request by request: limits, waiting, sessions, epochs, topic ids."""

import time
from collections.abc import Callable

import pytest

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.fetch import (
    FetchForgottenTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from support.waiting import wait_for
from support.wire.batches import (
    FETCH_BY_NAME,
    batch,
    fetch,
    fetch_request,
    produce,
    topic_id_of,
    values_of,
    whole_batches,
)
from support.wire.connection import Wire
from support.wire.topics import MakeTopic

FETCH = APIS[ApiKey.FETCH]
READ_COMMITTED = 1
NO_ID = bytes(16)


@pytest.mark.parametrize("version", range(FETCH.min_version, FETCH.max_version + 1))
def test_every_version_reads_produced_records(wire: Wire, topic: str, version: int) -> None:
    produce(wire, topic, batch(b"a", b"b"))
    topic_id = topic_id_of(wire, topic) if version > FETCH_BY_NAME else NO_ID
    data = fetch(wire, fetch_request(topic, topic_id=topic_id), version)
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 2, 2)
    assert values_of(data.records) == [b"a", b"b"]


def test_an_offset_inside_a_batch_returns_the_whole_batch(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a", b"b", b"c"))
    produce(wire, topic, batch(b"d"))
    assert values_of(fetch(wire, fetch_request(topic, 1)).records) == [b"a", b"b", b"c", b"d"]
    assert values_of(fetch(wire, fetch_request(topic, 3)).records) == [b"d"]


def test_a_fetch_at_the_log_end_is_empty_and_beyond_it_out_of_range(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a"))
    end = fetch(wire, fetch_request(topic, 1))
    assert (end.error_code, end.high_watermark, bytes(end.records or b"")) == (0, 1, b"")
    beyond = fetch(wire, fetch_request(topic, 2))
    assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(wire, fetch_request(topic, -1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleted_records_are_out_of_range(wire: Wire, topic: str) -> None:
    for value in (b"a", b"b", b"c"):
        produce(wire, topic, batch(value))
    request = DeleteRecordsRequest(
        timeout_ms=5000,
        topics=[
            DeleteRecordsTopic(
                name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
            )
        ],
    )
    (answer,) = wire.call(request, DeleteRecordsResponse).topics
    assert (answer.partitions[0].error_code, answer.partitions[0].low_watermark) == (0, 2)
    assert fetch(wire, fetch_request(topic, 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    data = fetch(wire, fetch_request(topic, 2))
    assert (data.log_start_offset, values_of(data.records)) == (2, [b"c"])


def test_partition_max_bytes_limits_the_response_to_at_least_one_batch(
    wire: Wire, topic: str
) -> None:
    for _ in range(4):
        produce(wire, topic, batch(b"x" * 1000))
    some = fetch(wire, fetch_request(topic, partition_max_bytes=2500)).records
    assert len(whole_batches(some)) == 2
    assert len(bytes(some or b"")) <= 2500
    # KIP-74: a batch above every limit is still sent, otherwise no consumer could pass it.
    one = fetch(wire, fetch_request(topic, partition_max_bytes=10, max_bytes=10))
    assert len(whole_batches(one.records)) == 1


def test_max_bytes_limits_all_partitions_together(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    for partition in range(3):
        produce(wire, topic, batch(b"x" * 1000), partition=partition)
    request = _request(topic, {0: 0, 1: 0, 2: 0}, max_bytes=1500)
    (answer,) = wire.call(request, FetchResponse, FETCH_BY_NAME).responses
    sizes = [len(whole_batches(data.records)) for data in answer.partitions]
    assert sizes == [1, 0, 0]


def test_a_fetch_with_data_does_not_wait(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a"))
    began = time.monotonic()
    assert fetch(wire, fetch_request(topic, max_wait_ms=5000)).records
    assert time.monotonic() - began < 2.5


def test_a_fetch_without_data_waits_for_max_wait(wire: Wire, topic: str) -> None:
    began = time.monotonic()
    assert not fetch(wire, fetch_request(topic, max_wait_ms=300)).records
    assert 0.25 <= time.monotonic() - began < 3


def test_a_waiting_fetch_is_completed_by_the_next_append(
    wire: Wire, connect: Callable[[], Wire], topic: str
) -> None:
    other = connect()
    began = time.monotonic()
    wire.send(fetch_request(topic, max_wait_ms=8000), FETCH_BY_NAME)
    produce(other, topic, batch(b"news"))
    _, response = wire.receive(FETCH, FETCH_BY_NAME)
    assert isinstance(response, FetchResponse)
    assert values_of(response.responses[0].partitions[0].records) == [b"news"]
    assert time.monotonic() - began < 4


def test_min_bytes_delays_a_fetch_until_enough_data_is_available(
    wire: Wire, connect: Callable[[], Wire], topic: str
) -> None:
    other = connect()
    wire.send(fetch_request(topic, max_wait_ms=8000, min_bytes=2000), FETCH_BY_NAME)
    produce(other, topic, batch(b"x" * 900))
    produce(other, topic, batch(b"x" * 900))
    produce(other, topic, batch(b"x" * 900))
    _, response = wire.receive(FETCH, FETCH_BY_NAME)
    assert isinstance(response, FetchResponse)
    (data,) = response.responses[0].partitions
    assert len(whole_batches(data.records)) == 3


def test_an_error_is_returned_at_once(wire: Wire, topic: str) -> None:
    began = time.monotonic()
    wrong = fetch(wire, fetch_request(topic, 99, max_wait_ms=5000))
    assert wrong.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert time.monotonic() - began < 2.5


def test_unknown_topics_partitions_and_ids_return_errors(
    wire: Wire, topic: str, new_name: Callable[[], str]
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(wire, fetch_request(new_name())).error_code == unknown
    assert fetch(wire, fetch_request(topic, partition=9)).error_code == unknown
    by_id = fetch(wire, fetch_request(topic_id=b"\x09" * 16), FETCH.max_version)
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_leader_epochs_fence_old_and_future_readers(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a"))
    assert fetch(wire, fetch_request(topic, current_leader_epoch=0)).error_code == 0
    future = fetch(wire, fetch_request(topic, current_leader_epoch=5))
    assert future.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_diverging_fetch_returns_the_divergence_point(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a", b"b"))
    data = fetch(wire, fetch_request(topic, 2, last_fetched_epoch=0))
    assert data.diverging_epoch.epoch == -1  # epoch 0 ends at 2: no divergence
    ahead = fetch(wire, fetch_request(topic, 2, last_fetched_epoch=7))
    assert ahead.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_end_offset_of_an_epoch_can_be_requested(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a", b"b", b"c"))

    def ask(epoch: int, current: int = -1, partition: int = 0) -> tuple[int, int, int]:
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderPartition(
                            partition=partition, current_leader_epoch=current, leader_epoch=epoch
                        )
                    ],
                )
            ],
        )
        (answer,) = wire.call(request, OffsetForLeaderEpochResponse).topics
        (found,) = answer.partitions
        return found.error_code, found.leader_epoch, found.end_offset

    assert ask(0) == (0, 0, 3)
    assert ask(9) == (0, -1, -1)
    assert ask(0, current=9)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(0, partition=9)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_read_committed_reads_to_the_last_stable_offset(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a"))
    data = fetch(wire, fetch_request(topic, isolation_level=READ_COMMITTED))
    assert values_of(data.records) == [b"a"]
    assert (data.last_stable_offset, data.aborted_transactions) == (1, [])
    uncommitted = fetch(wire, fetch_request(topic))
    assert uncommitted.aborted_transactions is None


def test_a_follower_fetch_is_rejected(wire: Wire, topic: str) -> None:
    request = fetch_request(topic)
    request.replica_id = 77
    data = fetch(wire, request)
    assert data.error_code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


# --- sessions (KIP-227) -----------------------------------------------------------------------


def test_a_session_returns_only_changed_partitions(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    full = _request(topic, {0: 0, 1: 0}, session_epoch=0)
    opened = wire.call(full, FetchResponse, FETCH_BY_NAME)
    assert opened.session_id != 0
    assert _partitions(opened) == {0, 1}

    idle = wire.call(_next(opened.session_id, 1), FetchResponse, FETCH_BY_NAME)
    assert (idle.session_id, idle.responses) == (opened.session_id, [])

    produce(wire, topic, batch(b"a"), partition=1)
    news = wire.call(_next(opened.session_id, 2), FetchResponse, FETCH_BY_NAME)
    assert _partitions(news) == {1}
    assert values_of(news.responses[0].partitions[0].records) == [b"a"]

    # The consumer advances; the other partition is unchanged.
    moved = _request(topic, {1: 1}, session_id=opened.session_id, session_epoch=3)
    assert _partitions(wire.call(moved, FetchResponse, FETCH_BY_NAME)) <= {1}
    produce(wire, topic, batch(b"b"), partition=0)
    last = wire.call(_next(opened.session_id, 4), FetchResponse, FETCH_BY_NAME)
    assert _partitions(last) == {0}


def test_partitions_can_be_removed_from_a_session(wire: Wire, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    opened = wire.call(_request(topic, {0: 0, 1: 0}, session_epoch=0), FetchResponse, FETCH_BY_NAME)
    request = _next(opened.session_id, 1)
    request.forgotten_topics_data = [FetchForgottenTopic(topic=topic, partitions=[0])]
    wire.call(request, FetchResponse, FETCH_BY_NAME)
    for partition in range(2):
        produce(wire, topic, batch(b"a"), partition=partition)
    news = wire.call(_next(opened.session_id, 2), FetchResponse, FETCH_BY_NAME)
    assert _partitions(news) == {1}


def test_an_invalid_session_epoch_is_rejected(wire: Wire, topic: str) -> None:
    opened = wire.call(_request(topic, {0: 0}, session_epoch=0), FetchResponse, FETCH_BY_NAME)
    wrong = wire.call(_next(opened.session_id, 5), FetchResponse, FETCH_BY_NAME)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    right = wire.call(_next(opened.session_id, 1), FetchResponse, FETCH_BY_NAME)
    assert right.error_code == 0


def test_an_unknown_session_is_not_found(wire: Wire, topic: str) -> None:
    lost = wire.call(_next(123456, 1), FetchResponse, FETCH_BY_NAME)
    assert (lost.error_code, lost.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)


def test_a_session_can_be_closed(wire: Wire, topic: str) -> None:
    opened = wire.call(_request(topic, {0: 0}, session_epoch=0), FetchResponse, FETCH_BY_NAME)
    closing = _request(topic, {0: 0}, session_id=opened.session_id, session_epoch=-1)
    assert wire.call(closing, FetchResponse, FETCH_BY_NAME).session_id == 0
    gone = wire.call(_next(opened.session_id, 1), FetchResponse, FETCH_BY_NAME)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_by_topic_id_reports_a_deleted_topic(
    wire: Wire, topic: str, connect: Callable[[], Wire]
) -> None:
    topic_id = topic_id_of(wire, topic)
    opened = wire.call(
        fetch_request(topic_id=topic_id, session_epoch=0), FetchResponse, FETCH.max_version
    )
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000)
    (deleted,) = connect().call(request, DeleteTopicsResponse).responses
    assert deleted.error_code == 0
    epoch = 0

    def told() -> bool:
        nonlocal epoch
        epoch += 1
        answer = wire.call(_next(opened.session_id, epoch), FetchResponse, FETCH.max_version)
        errors = {data.error_code for told in answer.responses for data in told.partitions}
        # Apache Kafka resolves the name at the start of the session and returns the former.
        return bool(errors & {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

    wait_for(told, "the session reports the lost topic")


def _request(
    topic: str,
    offsets: dict[int, int],
    *,
    max_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
                    )
                    for partition, offset in offsets.items()
                ],
            )
        ],
    )


def _next(session_id: int, epoch: int) -> FetchRequest:
    """An incremental request that changes nothing."""
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=[]
    )


def _partitions(response: FetchResponse) -> set[int]:
    assert response.error_code == 0
    return {data.partition_index for topic in response.responses for data in topic.partitions}
