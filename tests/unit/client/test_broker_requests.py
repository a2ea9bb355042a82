"""The brokers that answer are heard, and the others are named with their errors."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from headrace.client.admin.groups import list_groups
from headrace.client.admin.transactions import list_transactions
from headrace.client.broker_requests import ANSWER_S, ask_brokers
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError, DeadlineExceeded, RequestRefused
from headrace.client.network.retry import Backoff
from headrace.clock import SystemClock
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from headrace.protocol.messages.list_transactions import (
    ListTransactionsResponse,
    ListTransactionsTransactionState,
)
from support.wire.fake_broker import FakeBroker

TIMEOUT_S = 0.3


async def with_three_brokers(work: Callable[[ClusterClient], Awaitable[None]]) -> None:
    """Broker 1 lists a group and a transaction, broker 2 hangs, broker 3 is dead."""
    async with FakeBroker(1) as living, FakeBroker(2) as hanging:
        async with FakeBroker(3) as dead:
            pass
        living.handlers |= {
            ApiKey.METADATA: lambda request, version: living.layout({}, hanging, dead),
            ApiKey.LIST_GROUPS: lambda request, version: ListGroupsResponse(
                groups=[ListedGroup(group_id="billing")]
            ),
            ApiKey.LIST_TRANSACTIONS: lambda request, version: ListTransactionsResponse(
                transaction_states=[ListTransactionsTransactionState(transactional_id="transfer")]
            ),
        }
        for key in (ApiKey.METADATA, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS):
            hanging.handlers[key] = lambda request, version: None
        async with ClusterClient(
            living.address,
            client_id="test",
            clock=SystemClock(),
            random=Random(1),
            backoff=Backoff(initial_s=0.01, max_s=0.02),
        ) as client:
            await work(client)


def test_the_groups_of_the_living_are_listed_and_the_others_named() -> None:
    async def work(client: ClusterClient) -> None:
        listed = await list_groups(client, timeout_s=TIMEOUT_S)
        assert [each.group_id for each in listed.items] == ["billing"]
        assert sorted(listed.failures) == [2, 3]
        with pytest.raises(ClientError):
            listed.complete()

    asyncio.run(with_three_brokers(work))


def test_the_transactions_of_the_living_are_listed_and_the_others_named() -> None:
    async def work(client: ClusterClient) -> None:
        listed = await list_transactions(client, timeout_s=TIMEOUT_S)
        assert [each.transactional_id for each in listed.items] == ["transfer"]
        assert sorted(listed.failures) == [2, 3]

    asyncio.run(with_three_brokers(work))


def test_without_any_answer_the_error_is_raised() -> None:
    async def main() -> None:
        async with (
            FakeBroker() as broker,
            ClusterClient(
                broker.address, client_id="test", clock=SystemClock(), random=Random(1)
            ) as client,
        ):
            broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: ListGroupsResponse(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            )
            with pytest.raises(RequestRefused, match="the groups of broker 1"):
                await list_groups(client, timeout_s=TIMEOUT_S)

    asyncio.run(main())


def test_a_silent_broker_has_less_time_than_one_that_is_not_ready() -> None:
    """A coordinator that loads its state answers, so the others can wait for it."""
    refusal = RequestRefused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "list")
    limits: dict[int, list[float]] = {1: [], 2: []}

    async def ask(broker: int, limit_s: float) -> str:
        limits[broker].append(limit_s)
        if len(limits[broker]) > 1:
            return "listed"
        raise DeadlineExceeded("list", limit_s, 1, refusal if broker == 1 else None)

    found = asyncio.run(ask_brokers([1, 2], ask, timeout_s=15.0))
    assert found.answers == {1: "listed"}
    assert list(found.failures) == [2]
    assert limits == {1: [ANSWER_S, 15.0 - ANSWER_S], 2: [ANSWER_S]}
