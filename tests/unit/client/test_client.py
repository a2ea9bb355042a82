"""The cluster client sends each request to the right broker, also after the cluster changed."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from headrace.client.client import (
    ClusterClient,
    Target,
    ToAnyBroker,
    ToBroker,
    ToController,
    ToLeader,
    parse_servers,
)
from headrace.client.errors import (
    ClientClosed,
    ConnectionFailed,
    DeadlineExceeded,
    LeaderUnknown,
    RequestRefused,
    RequestTimedOut,
    UnsupportedByBroker,
)
from headrace.client.network.connection import Address
from headrace.client.network.retry import Backoff
from headrace.clock import SystemClock
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse

Make = Callable[..., Any]
QUICK = Backoff(initial_s=0.001, max_s=0.005)


def _client(*brokers: Any, **options: Any) -> ClusterClient:
    return ClusterClient(
        [broker.address for broker in brokers],
        client_id="test",
        clock=SystemClock(),
        random=Random(1),
        backoff=QUICK,
        **options,
    )


async def _who(client: ClusterClient, to: Target, **options: Any) -> int:
    """The id of the broker that answered."""
    answer = await client.send(DescribeClusterRequest(), DescribeClusterResponse, to=to, **options)
    return answer.controller_id


def _introduce(*brokers: Any) -> None:
    for broker in brokers:
        answer = DescribeClusterResponse(controller_id=broker.node_id)
        broker.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda request, version, answer=answer: answer


def _with_two(
    make_broker: Make, scenario: Callable[[Any, Any, ClusterClient], Awaitable[None]]
) -> None:
    async def run() -> None:
        async with make_broker(1) as one, make_broker(2) as two, _client(one) as client:
            _introduce(one, two)
            for broker in (one, two):
                broker.handlers[ApiKey.METADATA] = lambda request, version: one.layout(
                    {"t": [1, 2]}, two
                )
            await scenario(one, two, client)

    asyncio.run(run())


def test_each_target_is_reached(make_broker: Make) -> None:
    async def scenario(one: Any, two: Any, client: ClusterClient) -> None:
        assert await _who(client, ToBroker(1)) == 1
        assert await _who(client, ToBroker(2)) == 2
        assert await _who(client, ToController()) == 1
        assert await _who(client, ToLeader("t", 0)) == 1
        assert await _who(client, ToLeader("t", 1)) == 2
        # One connection each, and one Metadata request for all of them.
        assert (one.connections, two.connections) == (1, 1)
        assert one.count(ApiKey.METADATA) + two.count(ApiKey.METADATA) == 1

    _with_two(make_broker, scenario)


def test_a_leader_that_moved_is_found_again(make_broker: Make) -> None:
    async def scenario(one: Any, two: Any, client: ClusterClient) -> None:
        assert await _who(client, ToLeader("t", 0)) == 1
        moved = DescribeClusterResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        one.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda request, version: moved
        for broker in (one, two):
            broker.handlers[ApiKey.METADATA] = lambda request, version: one.layout(
                {"t": [2, 2]}, two
            )
        assert await _who(client, ToLeader("t", 0)) == 2

    _with_two(make_broker, scenario)


def test_a_broken_connection_is_replaced_and_the_request_sent_again(make_broker: Make) -> None:
    async def scenario(one: Any, two: Any, client: ClusterClient) -> None:
        one.dropped = [ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_CLUSTER]
        assert await _who(client, ToBroker(1)) == 1
        assert one.count(ApiKey.DESCRIBE_CLUSTER) == 3

    _with_two(make_broker, scenario)


def test_without_retry_the_first_failure_is_raised(make_broker: Make) -> None:
    async def scenario(one: Any, two: Any, client: ClusterClient) -> None:
        failed = DescribeClusterResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        one.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda request, version: failed
        answer = await client.send(
            DescribeClusterRequest(), DescribeClusterResponse, to=ToBroker(1), retry=False
        )
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert one.count(ApiKey.DESCRIBE_CLUSTER) == 1

    _with_two(make_broker, scenario)


def test_an_error_that_is_not_retriable_is_returned_to_the_caller(make_broker: Make) -> None:
    async def scenario(one: Any, two: Any, client: ClusterClient) -> None:
        denied = DescribeClusterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        one.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda request, version: denied
        answer = await client.send(
            DescribeClusterRequest(), DescribeClusterResponse, to=ToBroker(1)
        )
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert one.count(ApiKey.DESCRIBE_CLUSTER) == 1

    _with_two(make_broker, scenario)


@pytest.mark.slow
def test_retries_end_at_the_deadline_with_the_last_reason(make_broker: Make) -> None:
    async def scenario(one: Any, two: Any, client: ClusterClient) -> None:
        busy = DescribeClusterResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        one.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda request, version: busy
        with pytest.raises(DeadlineExceeded) as caught:
            await _who(client, ToBroker(1), timeout_s=0.5)
        assert isinstance(caught.value.last, RequestRefused)
        assert caught.value.attempts > 1
        with pytest.raises(DeadlineExceeded) as caught:
            await _who(client, ToLeader("nowhere", 0), timeout_s=0.2)
        assert isinstance(caught.value.last, LeaderUnknown)

    _with_two(make_broker, scenario)


def test_any_live_broker_can_answer(make_broker: Make) -> None:
    async def run() -> None:
        async with make_broker(1) as dead:
            pass
        async with make_broker(2) as alive, _client(dead, alive) as client:
            _introduce(alive)
            assert (await client.refresh()).brokers == {2: Address("127.0.0.1", alive.port)}

    asyncio.run(run())


def test_a_cluster_that_is_down_is_reported_with_every_address_tried(make_broker: Make) -> None:
    async def run() -> None:
        async with make_broker(1) as one, make_broker(2) as two:
            pass
        async with _client(one, two) as client:
            with pytest.raises(DeadlineExceeded) as caught:
                await client.refresh(timeout_s=0.3)
        assert isinstance(caught.value.last, ConnectionFailed)
        assert one.address in str(caught.value)
        assert two.address in str(caught.value)

    asyncio.run(run())


def test_a_silent_broker_costs_no_more_than_the_deadline(
    make_broker: Make,
) -> None:
    async def run() -> None:
        async with make_broker(1) as one, _client(one) as client:
            one.handlers[ApiKey.API_VERSIONS] = lambda request, version: None
            async with asyncio.timeout(20):
                with pytest.raises(DeadlineExceeded):
                    await client.refresh(timeout_s=0.05)

    asyncio.run(run())


def test_a_broker_that_hangs_is_not_chosen_while_another_answers(
    make_broker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused broker keeps its connection open; requests for any broker go to the others."""
    monkeypatch.setattr("headrace.client.network.connection.SILENT_S", 0.05)

    async def scenario(one: Any, two: Any, client: ClusterClient) -> None:
        await client.refresh()
        assert await _who(client, ToBroker(2)) == 2
        two.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda request, version: None
        with pytest.raises(RequestTimedOut):
            await _who(client, ToBroker(2), retry=False, timeout_s=0.1)
        for _ in range(20):  # the choice is random
            assert await _who(client, ToAnyBroker(), retry=False) == 1

    _with_two(make_broker, scenario)


def test_callers_share_one_connection_attempt(make_broker: Make) -> None:
    async def scenario(one: Any, two: Any, client: ClusterClient) -> None:
        await client.refresh()
        assert await asyncio.gather(*(_who(client, ToBroker(2)) for _ in range(20))) == [2] * 20
        assert two.connections == 1

    _with_two(make_broker, scenario)


def test_the_request_version_is_one_that_the_broker_supports(make_broker: Make) -> None:
    async def run() -> None:
        async with make_broker(1) as one, _client(one) as client:
            served = [ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=7)]
            old = ApiVersionsResponse(api_keys=served)
            one.handlers[ApiKey.API_VERSIONS] = lambda request, version: old
            await client.send(MetadataRequest(), MetadataResponse)
            assert one.seen[-1] == (ApiKey.METADATA, 7)
            with pytest.raises(UnsupportedByBroker, match="DescribeCluster"):
                await _who(client, ToBroker(1))

    asyncio.run(run())


def test_closing_fails_pending_requests(make_broker: Make) -> None:
    async def scenario(one: Any, two: Any, client: ClusterClient) -> None:
        one.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda request, version: None
        waiting = asyncio.create_task(_who(client, ToBroker(1)))
        await one.until_seen(ApiKey.DESCRIBE_CLUSTER)
        await client.close()
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await client.refresh()

    _with_two(make_broker, scenario)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" a , b:2,", [("a", 9092), ("b", 2)]),
        ("[::1]:19", [("::1", 19)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_bootstrap_servers_are_read(text: str, expected: list[tuple[str, int]]) -> None:
    assert parse_servers(text) == tuple(Address(*pair) for pair in expected)


@pytest.mark.parametrize("text", ["", " , ", "a:x", ":9092", "a:0", "a:65536"])
def test_invalid_bootstrap_servers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"host:port|bootstrap"):
        parse_servers(text)
