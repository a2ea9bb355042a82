"""Brokers that may have crashed a moment ago: clients are not sent to them until that is known.

A client that loses its leader requests metadata within milliseconds, sooner than any election. If
the response names the dead leader, the client waits for its own timers, a second with librdkafka.
So a response that would name such a leader is delayed for a short time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

MAX_SUSPICION_S: Final = 0.5
"""An election takes some ten milliseconds; after this time the response is sent as it is."""


class SuspectedBrokers:
    """The suspected brokers, and the requests that wait for a decision."""

    def __init__(self) -> None:
        self._suspects: dict[int, asyncio.TimerHandle] = {}
        self._checks: dict[int, asyncio.Task[None]] = {}
        self._waiting: list[asyncio.Future[None]] = []

    def __bool__(self) -> bool:
        return bool(self._suspects)

    def suspect(self, broker_id: int, has_crashed: Callable[[], Awaitable[bool]]) -> None:
        """Suspects a broker whose connections have ended, until `has_crashed` has the answer."""
        if broker_id in self._suspects:
            return
        loop = asyncio.get_running_loop()
        self._suspects[broker_id] = loop.call_later(MAX_SUSPICION_S, self.clear, broker_id)
        self._checks[broker_id] = loop.create_task(self._check(broker_id, has_crashed))

    def clear(self, broker_id: int) -> None:
        """Ends the suspicion: the broker is alive, or the metadata shows that it is gone."""
        timer = self._suspects.pop(broker_id, None)
        if timer is None:
            return
        timer.cancel()
        check = self._checks.pop(broker_id, None)
        if check is not None and check is not asyncio.current_task():
            check.cancel()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def any_of(self, broker_ids: Iterable[int]) -> bool:
        return any(id_ in self._suspects for id_ in broker_ids)

    @property
    def brokers(self) -> list[int]:
        return list(self._suspects)

    async def until_cleared(self) -> None:
        """Waits until a suspicion has ended."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def close(self) -> None:
        for broker_id in self.brokers:
            self.clear(broker_id)

    async def _check(self, broker_id: int, has_crashed: Callable[[], Awaitable[bool]]) -> None:
        if not await has_crashed():
            self.clear(broker_id)
