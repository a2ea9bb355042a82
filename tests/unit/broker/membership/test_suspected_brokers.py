"""A suspicion ends when it is refuted or confirmed, or after a short time."""

import asyncio
from collections.abc import Awaitable, Callable

from headrace.broker.membership.suspected_brokers import MAX_SUSPICION_S, SuspectedBrokers
from support.brokers.virtual_loop import run_virtually


def answer(crashed: bool) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return crashed

    return check


def test_a_live_broker_is_cleared_immediately() -> None:
    async def test() -> None:
        suspicions = SuspectedBrokers()
        suspicions.suspect(2, answer(crashed=False))
        assert suspicions.any_of([1, 2])
        await suspicions.until_cleared()
        assert not suspicions

    run_virtually(test())


def test_a_crashed_broker_stays_suspected_until_it_is_cleared() -> None:
    async def test() -> None:
        suspicions = SuspectedBrokers()
        suspicions.suspect(2, answer(crashed=True))
        change = asyncio.ensure_future(suspicions.until_cleared())
        await asyncio.sleep(MAX_SUSPICION_S / 2)
        assert suspicions.any_of([2])
        suspicions.clear(2)
        await change
        assert not suspicions.any_of([2])

    run_virtually(test())


def test_a_wait_never_exceeds_the_bound() -> None:
    async def test() -> None:
        suspicions = SuspectedBrokers()
        suspicions.suspect(2, answer(crashed=True))
        began = asyncio.get_running_loop().time()
        await suspicions.until_cleared()
        waited = asyncio.get_running_loop().time() - began
        assert MAX_SUSPICION_S / 2 < waited < 2 * MAX_SUSPICION_S
        assert not suspicions

    run_virtually(test())
