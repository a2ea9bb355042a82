"""Requests about many partitions go to the leader of each, also after a leader dies."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from headrace.client.admin.offsets import LATEST, FoundOffset, list_offsets
from headrace.client.client import ClusterClient
from headrace.client.errors import ConnectionFailed, DeadlineExceeded
from headrace.client.leader_requests import send_to_leaders
from headrace.client.network.retry import Backoff
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.protocol.struct import Struct
from support.wire.fake_broker import FakeBroker

QUICK = Backoff(initial_s=0.001, max_s=0.005)
AT = TopicPartition("t", 0)
TIMEOUT_S = 30.0


def client_of(*brokers: FakeBroker) -> ClusterClient:
    return ClusterClient(
        [broker.address for broker in brokers],
        client_id="test",
        clock=SystemClock(),
        random=Random(1),
        backoff=QUICK,
    )


def offset_of(broker: FakeBroker, offset: int, *refusals: ErrorCode) -> None:
    """After the refusals, the broker returns this value for every partition."""
    left = list(refusals)

    def answer(request: Struct, version: int) -> ListOffsetsResponse:
        assert isinstance(request, ListOffsetsRequest)
        code = left.pop(0) if left else ErrorCode.NONE
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index, error_code=code, offset=offset
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    broker.handlers[ApiKey.LIST_OFFSETS] = answer


def leads(brokers: Sequence[FakeBroker], leader: int) -> None:
    for broker in brokers:
        broker.handlers[ApiKey.METADATA] = lambda request, version: brokers[0].layout(
            {"t": [leader]}, *brokers[1:]
        )


async def latest(client: ClusterClient, *, timeout_s: float = TIMEOUT_S) -> FoundOffset | Refusal:
    return (await list_offsets(client, {AT: LATEST}, timeout_s=timeout_s))[AT]


def test_requests_to_a_dead_leader_move_to_its_successor() -> None:
    async def run() -> None:
        async with FakeBroker(1) as one, client_of(one) as client:
            async with FakeBroker(2) as two:
                leads((one, two), 2)
                offset_of(one, 7)
                offset_of(two, 7)
                assert await latest(client) == FoundOffset(7, -1)
            # The broker is gone. The cluster notices after a few requests.
            asked = one.count(ApiKey.METADATA)
            old, new = one.layout({"t": [2]}, two), one.layout({"t": [1]})
            one.handlers[ApiKey.METADATA] = lambda request, version: (
                old if one.count(ApiKey.METADATA) < asked + 3 else new
            )
            assert await latest(client) == FoundOffset(7, -1)
            assert one.count(ApiKey.LIST_OFFSETS) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_a_leader_that_is_not_ready_gets_the_request_again(code: ErrorCode) -> None:
    async def run() -> None:
        async with FakeBroker(1) as one, client_of(one) as client:
            leads((one,), 1)
            offset_of(one, 7, code)
            assert await latest(client) == FoundOffset(7, -1)
            assert one.count(ApiKey.LIST_OFFSETS) == 2

    asyncio.run(run())


def test_an_unreachable_leader_is_named_in_the_error() -> None:
    async def run() -> None:
        async with FakeBroker(1) as one, client_of(one) as client:
            async with FakeBroker(2) as two:
                leads((one, two), 2)
            with pytest.raises(DeadlineExceeded, match=f"cannot connect to {two.address}"):
                await latest(client, timeout_s=0.1)

    asyncio.run(run())


def test_a_partial_answer_lacks_the_partitions_of_an_unreachable_leader() -> None:
    async def run() -> None:
        async with FakeBroker(1) as one, client_of(one) as client:
            async with FakeBroker(2) as two:
                leads((one, two), 2)

            async def ask(leader: int, of: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
                raise ConnectionFailed("the leader is dead")

            answers = await send_to_leaders(
                client, [AT], ask, timeout_s=TIMEOUT_S, patience_s=0, partial=True
            )
            refusal = answers[AT]
            assert isinstance(refusal, Refusal)
            assert refusal.code is ErrorCode.LEADER_NOT_AVAILABLE

    asyncio.run(run())


def test_a_partition_without_a_leader_is_refused_after_the_wait() -> None:
    async def run() -> None:
        async with FakeBroker(1) as one, client_of(one) as client:
            leads((one,), -1)

            async def ask(leader: int, of: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
                raise AssertionError("there is no leader to ask")

            answers = await send_to_leaders(client, [AT], ask, timeout_s=TIMEOUT_S, patience_s=0.01)
            refusal = answers[AT]
            assert isinstance(refusal, Refusal)
            assert refusal.code is ErrorCode.LEADER_NOT_AVAILABLE

    asyncio.run(run())
