"""A Produce that waits: for the flush that was promised, or for all in-sync replicas.

Guarantees: the answer goes out once, when each partition's records are committed, have failed, or
the request's time is up (REQUEST_TIMED_OUT: they may be committed later). Nothing polls; one
advance of a watermark answers everyone whom it concerns.
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
    """The usual case: one partition, whose answer is ready and waits for its commit."""

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
        self._timer = loop.call_later(timeout_s, self._give_up)
        leader.when_committed(next_offset, self._committed)

    def _committed(self, code: ErrorCode) -> None:
        self._timer.cancel()
        if not self.future.done():  # its client may have gone
            self.future.set_result(self._answer if code is NONE else self._refuse(code))

    def _give_up(self) -> None:
        self._leader.stop_waiting(self._committed)
        self._committed(REQUEST_TIMED_OUT)


class DelayedProduce:
    """Several partitions, or one that a flush was promised to."""

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
        self._left = 1  # until `start`
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
        tell = partial(self._committed, partition)
        self._commits[id(partition)] = (partition, leader, tell)
        leader.when_committed(next_offset, tell)

    def start(self, timeout_s: float) -> "asyncio.Future[ProduceResponse | bytes | None]":
        """Everything to wait for is known. Flushes end by themselves; commits have `timeout_s`."""
        if self._commits:
            self._timer = self._loop.call_later(timeout_s, self._give_up)
        self._one_less()
        return self.future

    def _flushed(self, partition: PartitionProduceResponse, done: "asyncio.Future[None]") -> None:
        error = done.exception()
        if error is not None:
            partition.error_code, partition.error_message = failure(error)
            partition.base_offset = NO_OFFSET
            self._stop(partition, NONE)
        self._one_less()

    def _committed(self, partition: PartitionProduceResponse, code: ErrorCode) -> None:
        del self._commits[id(partition)]
        if code:
            partition.error_code = code
        self._one_less()

    def _give_up(self) -> None:
        for partition, _, _ in list(self._commits.values()):
            self._stop(partition, REQUEST_TIMED_OUT)

    def _stop(self, partition: PartitionProduceResponse, code: ErrorCode) -> None:
        """No longer waits for the partition's commit, if it did."""
        waiting = self._commits.get(id(partition))
        if waiting is not None:
            _, leader, tell = waiting
            leader.stop_waiting(tell)
            tell(code)

    def _one_less(self) -> None:
        self._left -= 1
        if self._left:
            return
        if self._timer is not None:
            self._timer.cancel()
        if not self.future.done():
            self._finish(self._response)
            self.future.set_result(self._response)
