"""Produce requests that wait for a flush or for all in-sync replicas.

Guarantees: the response is sent once, when the records of each partition are committed or have
failed, or when the request times out (REQUEST_TIMED_OUT: the records may be committed later).
Nothing polls: an advance of the high watermark completes all requests that wait for it.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from headrace.broker.runtime.error_codes import failure
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from headrace.replication.sole_leader import Committed, SoleLeader

NONE = ErrorCode.NONE
REQUEST_TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT
NO_OFFSET = -1


class DelayedSingleProduce:
    """The common case: one partition, whose encoded response waits for the commit."""

    __slots__ = ("_answer", "_leader", "_refuse", "_timer", "future")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        leader: SoleLeader,
        next_offset: int,
        timeout_s: float,
        answer: bytes,
        refuse: Callable[[ErrorCode], ProduceResponse],
    ) -> None:
        self.future: asyncio.Future[ProduceResponse | bytes | None] = loop.create_future()
        self._answer = answer
        self._leader = leader
        self._refuse = refuse
        self._timer = loop.call_later(timeout_s, self._time_out)
        leader.when_committed(next_offset, self._committed)

    def _committed(self, code: ErrorCode) -> None:
        self._timer.cancel()
        if not self.future.done():  # cancelled if the client has disconnected
            self.future.set_result(self._answer if code is NONE else self._refuse(code))

    def _time_out(self) -> None:
        self._leader.stop_waiting(self._committed)
        self._committed(REQUEST_TIMED_OUT)


class DelayedProduce:
    """A request with several partitions, or with one that must be flushed first."""

    __slots__ = ("_commits", "_finish", "_left", "_loop", "_response", "_timer", "future")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        response: ProduceResponse,
        finish: Callable[[ProduceResponse], None],
    ) -> None:
        self.future: asyncio.Future[ProduceResponse | bytes | None] = loop.create_future()
        self._loop = loop
        self._response = response
        self._finish = finish
        self._left = 1  # one for `start`, so that the request cannot complete before it
        self._timer: asyncio.TimerHandle | None = None
        self._commits: dict[int, tuple[PartitionProduceResponse, SoleLeader, Committed]] = {}

    def wait_for_flush(
        self, partition: PartitionProduceResponse, flushed: "asyncio.Future[None]"
    ) -> None:
        self._left += 1
        flushed.add_done_callback(partial(self._flushed, partition))

    def wait_for_commit(
        self, partition: PartitionProduceResponse, leader: SoleLeader, next_offset: int
    ) -> None:
        self._left += 1
        on_committed = partial(self._committed, partition)
        self._commits[id(partition)] = (partition, leader, on_committed)
        leader.when_committed(next_offset, on_committed)

    def start(self, timeout_s: float) -> "asyncio.Future[ProduceResponse | bytes | None]":
        """Call after all `wait_for_...` calls. `timeout_s` limits commits, not flushes."""
        if self._commits:
            self._timer = self._loop.call_later(timeout_s, self._time_out)
        self._complete_one()
        return self.future

    def _flushed(self, partition: PartitionProduceResponse, done: "asyncio.Future[None]") -> None:
        error = done.exception()
        if error is not None:
            partition.error_code, partition.error_message = failure(error)
            partition.base_offset = NO_OFFSET
            self._stop_waiting_for_commit(partition, NONE)
        self._complete_one()

    def _committed(self, partition: PartitionProduceResponse, code: ErrorCode) -> None:
        del self._commits[id(partition)]
        if code:
            partition.error_code = code
        self._complete_one()

    def _time_out(self) -> None:
        for partition, _, _ in list(self._commits.values()):
            self._stop_waiting_for_commit(partition, REQUEST_TIMED_OUT)

    def _stop_waiting_for_commit(
        self, partition: PartitionProduceResponse, code: ErrorCode
    ) -> None:
        """Completes the wait for the partition's commit with `code`, if there is one."""
        waiting = self._commits.get(id(partition))
        if waiting is not None:
            _, leader, on_committed = waiting
            leader.stop_waiting(on_committed)
            on_committed(code)

    def _complete_one(self) -> None:
        self._left -= 1
        if self._left:
            return
        if self._timer is not None:
            self._timer.cancel()
        if not self.future.done():
            self._finish(self._response)
            self.future.set_result(self._response)
