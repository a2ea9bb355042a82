"""When the end of a transaction is told to its coordinator, and told again."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from headrace.broker.node import Broker
from headrace.broker.transaction_markers import TransactionMarkers
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.transactions.markers import WriteMarkers

ENDED = WriteMarkers("mover", 7, 3, False, frozenset(), 2)


class Coordinator:
    """Answers what it is given, one after the other, and then that all is well."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *errors: ErrorCode) -> None:
        self._loop = loop
        self._errors = list(errors)
        self.asked = 0

    def run_partition(self, index: int, decide: object) -> "asyncio.Future[None]":
        self.asked += 1
        done: asyncio.Future[None] = self._loop.create_future()
        if self._errors:
            done.set_exception(CoordinatorError(self._errors.pop(0)))
        else:
            done.set_result(None)
        return done


class Timers:
    """Everything is due at once."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        callback()


class Host:
    """What the markers need of their broker."""

    stopping = False

    def __init__(self, transactions: Coordinator) -> None:
        self.transactions = transactions
        self.timers = Timers()


def times_asked(*errors: ErrorCode) -> int:
    async def told() -> int:
        coordinator = Coordinator(asyncio.get_running_loop(), *errors)
        TransactionMarkers(cast("Broker", Host(coordinator))).perform(0, ENDED)
        return coordinator.asked

    return asyncio.run(told())


def test_a_coordinator_with_too_few_replicas_in_sync_is_told_again() -> None:
    """Nobody else would ever tell it: the transaction would be about to end for good."""
    busy = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert times_asked(busy, busy, busy) == 4


@pytest.mark.parametrize(
    "gone", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_a_coordinator_that_is_gone_or_loads_asks_by_itself(gone: ErrorCode) -> None:
    assert times_asked(gone) == 1
