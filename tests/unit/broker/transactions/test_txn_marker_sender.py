"""Notifications of a transaction's end to its coordinator, and their retries."""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import create_autospec

import pytest

from headrace.broker.metadata.standalone_metadata import MetadataView
from headrace.broker.partitions.flusher import Flusher
from headrace.broker.runtime.timers import Timer
from headrace.broker.transactions.txn_marker_append import GroupCoordinator
from headrace.broker.transactions.txn_marker_sender import TxnMarkerSender
from headrace.clock import Clock, SystemClock
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.transaction.marker_request import WriteMarkers
from headrace.protocol.errors import ErrorCode
from headrace.replication.sole_leader import SoleLeader

ENDED = WriteMarkers("mover", 7, 3, False, frozenset(), 2)


class Coordinator:
    """Returns the given responses in order, and then success."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *errors: ErrorCode) -> None:
        self._loop = loop
        self._errors = list(errors)
        self.asked = 0

    def run_partition(self, index: int, decide: object) -> "asyncio.Future[Any]":
        self.asked += 1
        done: asyncio.Future[None] = self._loop.create_future()
        if self._errors:
            done.set_exception(CoordinatorError(self._errors.pop(0)))
        else:
            done.set_result(None)
        return done


class Timers:
    """Every timer is due immediately."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        callback()
        timer: Timer = create_autospec(Timer, instance=True)
        return timer


class Partitions:
    """The coordinator's partition, which this broker leads or does not."""

    def __init__(self, *, led: bool) -> None:
        self._led = led

    def find(self, topic: str, index: int) -> SoleLeader | ErrorCode:
        return (
            create_autospec(SoleLeader, epoch=4) if self._led else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )


class Host:
    """The part of a broker that the markers use."""

    stopping = False
    node_id = 1
    peers = None

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transactions: Coordinator, *, leads: bool
    ) -> None:
        self.loop = loop
        self.clock: Clock = SystemClock()
        self.flusher: Flusher = create_autospec(Flusher, instance=True)
        self.groups: GroupCoordinator = create_autospec(GroupCoordinator, instance=True)
        self.metadata: MetadataView = create_autospec(MetadataView, instance=True)
        self.transactions = transactions
        self.timers = Timers()
        self.partitions = Partitions(led=leads)


def times_asked(*errors: ErrorCode, leads: bool = True) -> int:
    async def told() -> int:
        loop = asyncio.get_running_loop()
        coordinator = Coordinator(loop, *errors)
        TxnMarkerSender(Host(loop, coordinator, leads=leads)).perform(0, ENDED)
        return coordinator.asked

    return asyncio.run(told())


@pytest.mark.parametrize(
    "busy",
    [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,  # too few replicas of its log are in sync
        ErrorCode.NOT_COORDINATOR,  # its disk is full
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_a_coordinator_that_could_not_write_is_notified_again(busy: ErrorCode) -> None:
    """No other request would end the transaction."""
    assert times_asked(busy, busy, busy) == 4


def test_a_coordinator_that_moved_to_another_broker_is_not_notified_again() -> None:
    assert times_asked(ErrorCode.NOT_COORDINATOR, leads=False) == 1
