"""An empty response ends a range only for a known reason."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from headrace.client.client import ClusterClient
from headrace.client.network.retry import Backoff
from headrace.clock import SystemClock
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.fetcher import EMPTY_ANSWERS, Chunk, Fetcher
from headrace.pipeline.source.settings import DataLost, ReadFailed, ReadSettings
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.protocol.struct import Struct
from headrace.records.record import Record, build_batch
from support.wire.fake_broker import FakeBroker

WANTED = OffsetRange("t", 0, 0, 4)
TIMEOUT_S = 30.0
BATCH = build_batch([Record(at, 1, None, b"v") for at in range(4)])


def data(
    records: bytes = b"", *, end: int = 4, stable: int = 4, code: int = 0, nearer: int = -1
) -> FetchResponse:
    part = FetchPartitionData(
        partition_index=0,
        error_code=code,
        high_watermark=end,
        last_stable_offset=stable,
        preferred_read_replica=nearer,
        records=records,
    )
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])


THROTTLED = FetchResponse(throttle_time_ms=1)


def answers(broker: FakeBroker, *told: FetchResponse) -> list[FetchRequest]:
    """Answers fetches in order and repeats the last answer; returns the requests."""
    left, asked = list(told), []

    def answer(request: Struct, version: int) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        asked.append(request)
        return left.pop(0) if len(left) > 1 else left[0]

    broker.handlers[ApiKey.FETCH] = answer
    return asked


def ends_at(broker: FakeBroker, *ends: int | ErrorCode) -> None:
    """The log's bounds in order; the last one repeats."""
    left = list(ends)

    def answer(request: Struct, version: int) -> ListOffsetsResponse:
        assert isinstance(request, ListOffsetsRequest)
        told = left.pop(0) if len(left) > 1 else left[0]
        refused = isinstance(told, ErrorCode)
        part = ListOffsetsPartitionResponse(
            error_code=told if refused else 0, offset=-1 if refused else told
        )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[part])])

    broker.handlers[ApiKey.LIST_OFFSETS] = answer


def read(
    script: Callable[[FakeBroker, FakeBroker], object], *, fail_on_data_loss: bool = True
) -> list[Chunk]:
    """All chunks of the range from two brokers, the first of which leads."""

    async def run() -> list[Chunk]:
        async with FakeBroker(1) as one, FakeBroker(2) as two:
            for broker in (one, two):
                broker.handlers[ApiKey.METADATA] = lambda request, version: one.layout(
                    {"t": [1]}, two
                )
            script(one, two)
            settings = ReadSettings(one.address, rack="r", api_timeout_s=TIMEOUT_S)
            client = ClusterClient(
                one.address,
                client_id="test",
                clock=SystemClock(),
                random=Random(1),
                backoff=Backoff(initial_s=0.001, max_s=0.005),
            )
            async with client:
                fetcher = Fetcher(client, WANTED, settings, fail_on_data_loss=fail_on_data_loss)
                offset, chunks = WANTED.start, []
                while offset < WANTED.end:
                    chunk, offset = await fetcher.fetch(offset)
                    chunks += [chunk] if chunk is not None else []
                return chunks

    return asyncio.run(run())


def test_a_fetch_delayed_by_a_quota_is_sent_again() -> None:
    (chunk,) = read(lambda one, two: answers(one, THROTTLED, THROTTLED, data(BATCH)))
    assert bytes(chunk.data) == BATCH


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_moved_leader_is_found(code: ErrorCode) -> None:
    assert len(read(lambda one, two: answers(one, data(code=code), data(BATCH)))) == 1


def test_the_fetcher_waits_for_a_new_leaders_end_offset() -> None:
    def script(one: FakeBroker, two: FakeBroker) -> None:
        answers(one, data(end=2, stable=2), data(end=2, stable=2), data(BATCH))
        ends_at(one, ErrorCode.OFFSET_NOT_AVAILABLE, 4)

    assert len(read(script)) == 1


def test_a_truncated_log_is_an_error() -> None:
    def script(one: FakeBroker, two: FakeBroker) -> None:
        answers(one, data(end=2, stable=2))
        ends_at(one, 2)

    with pytest.raises(DataLost, match="ends at offset 2"):
        read(script)
    assert read(script, fail_on_data_loss=False) == []


def test_expired_offsets_are_an_error_or_skipped() -> None:
    def script(one: FakeBroker, two: FakeBroker) -> None:
        answers(one, data(code=ErrorCode.OFFSET_OUT_OF_RANGE), data(BATCH))
        ends_at(one, 2)

    with pytest.raises(DataLost, match="offset 0 is not in the log"):
        read(script)
    (chunk,) = read(script, fail_on_data_loss=False)
    assert chunk.start == 2


def test_a_nearer_replica_is_read_until_it_fails() -> None:
    asked: list[list[FetchRequest]] = []

    def script(one: FakeBroker, two: FakeBroker) -> None:
        asked[:] = [
            answers(one, data(nearer=2), data(BATCH)),
            answers(two, data(code=ErrorCode.OFFSET_OUT_OF_RANGE)),
        ]

    assert len(read(script)) == 1
    assert [len(each) for each in asked] == [2, 1]
    assert [each.rack_id for each in asked[0]] == ["r", ""]


def test_a_lagging_nearer_replica_is_replaced_by_the_leader() -> None:
    def script(one: FakeBroker, two: FakeBroker) -> None:
        answers(one, data(nearer=2), data(BATCH))
        answers(two, data(end=2, stable=2))

    assert len(read(script)) == 1


def test_a_nearer_replica_returns_the_records() -> None:
    def script(one: FakeBroker, two: FakeBroker) -> None:
        answers(one, data(nearer=2))
        answers(two, data(BATCH))

    assert len(read(script)) == 1


def test_a_range_ends_when_its_remaining_records_were_compacted_away() -> None:
    asked: list[list[FetchRequest]] = []
    assert read(lambda one, two: asked.append(answers(one, data()))) == []
    assert len(asked[0]) == EMPTY_ANSWERS


def test_the_fetcher_waits_for_an_open_transaction() -> None:
    open_answers = [data(stable=0)] * (EMPTY_ANSWERS + 1)
    assert len(read(lambda one, two: answers(one, *open_answers, data(BATCH)))) == 1


def test_a_broker_error_is_raised_with_its_reason() -> None:
    with pytest.raises(ReadFailed, match="TOPIC_AUTHORIZATION_FAILED"):
        read(lambda one, two: answers(one, data(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
