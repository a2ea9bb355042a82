"""A fetch that waits for `min_bytes`: appends wake it, its time limit ends it, nothing polls."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from headrace.replication.replica import Replica
from headrace.storage.errors import StorageError


class DelayedResponse(ABC):
    """A response that waits; a subclass stops its wait in `_stop_watching`."""

    __slots__ = ("_answer", "future")

    future: "asyncio.Future[object]"
    _answer: Callable[[], object]

    def finish(self) -> None:
        """Answers with the records that are available."""
        if self.future.done():
            return
        self._stop_watching()
        try:
            self.future.set_result(self._answer())
        except Exception as error:
            self.future.set_exception(error)

    @abstractmethod
    def _stop_watching(self) -> None: ...


class DelayedFetch(DelayedResponse):
    """Counts the bytes that become readable and answers once there are enough of them."""

    __slots__ = ("_enough", "_leaders", "_loop", "_missing_bytes", "_scheduled", "_timer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        leaders: Sequence[Replica],
        missing_bytes: int,
        max_wait_s: float,
        answer: Callable[[], object],
        enough: Callable[[], bool],
    ) -> None:
        """`enough` reads again and returns whether the response may be sent; a plain fetch counts
        bytes instead."""
        self.future = loop.create_future()
        self._loop = loop
        self._answer = answer
        self._enough = enough
        self._missing_bytes = missing_bytes
        self._leaders = list(leaders)
        self._scheduled = False
        for leader in self._leaders:
            leader.watch(self)
        self._timer = loop.call_later(max_wait_s, self.finish)
        # A client that disconnects cancels the future: stop watching for it.
        self.future.add_done_callback(lambda _: self._stop_watching())

    def advanced(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self.interrupted()

    def interrupted(self) -> None:
        # In the next iteration of the loop: the producer's response is sent first, and records
        # that arrive in this iteration are read as well.
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.finish)

    def _stop_watching(self) -> None:
        self._timer.cancel()
        for leader in self._leaders:
            leader.unwatch(self)
        self._leaders = []


class DelayedFetchFromFollower(DelayedFetch):
    """A fetch from a follower, whose watermark may be below the offset that a consumer has read."""

    __slots__ = ()

    def advanced(self, size_bytes: int) -> None:
        if self._enough():
            self.interrupted()


class DelayedReadCommittedFetch(DelayedFetch):
    """For read_committed: records count when their transaction has ended, not when they arrive."""

    __slots__ = ("_stable",)

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        leaders: Sequence[Replica],
        missing_bytes: int,
        max_wait_s: float,
        answer: Callable[[], object],
        enough: Callable[[], bool],
    ) -> None:
        super().__init__(loop, leaders, missing_bytes, max_wait_s, answer, enough)
        self._stable = [leader.last_stable_offset for leader in leaders]

    def advanced(self, size_bytes: int) -> None:
        try:
            stable = [leader.last_stable_offset for leader in self._leaders]
        except StorageError:
            return self.interrupted()  # the response reports the error
        if stable == self._stable:
            return None
        self._stable = stable
        # A marker of a few bytes can make many more bytes readable.
        if self._missing_bytes <= 1 or self._enough():
            self.interrupted()
        return None
