"""A share fetch that waits for records.

It does not poll. An append, a released record, an expired lock or free space in the window wakes
it. At its time limit it answers with the records that are available.
"""

import asyncio
from collections.abc import Callable

from headrace.broker.share.share_fetch_reader import ShareFetchLimits, ShareRead, read_shares
from headrace.broker.share.share_partition_runner import SharePartitionRunner
from headrace.share.share_session import SharedPartition


class DelayedShareFetch:
    """Reads again whenever records may have become available."""

    __slots__ = ("_lives", "_loop", "_scheduled", "_timer", "_want", "future")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        lives: dict[SharedPartition, SharePartitionRunner],
        want: ShareFetchLimits,
        over: "Callable[[DelayedShareFetch], None]",
    ) -> None:
        self.future: asyncio.Future[ShareRead] = loop.create_future()
        self._loop = loop
        self._lives = lives
        self._want = want
        self._scheduled = False
        for live in lives.values():
            live.watch(self)
            live.leader.watch(self)
        self._timer = loop.call_later(want.max_wait_ms / 1000, self.finish)

        # A client that disconnects cancels the future; the fetch then stops listening.
        def done(_: "asyncio.Future[ShareRead]") -> None:
            self._stop_watching()
            over(self)

        self.future.add_done_callback(done)

    def advanced(self, size_bytes: int) -> None:
        self.changed()

    def interrupted(self) -> None:
        self.changed()

    def changed(self) -> None:
        # In the loop's next iteration, so that one read covers everything that happens in this one.
        if not self._scheduled and not self.future.done():
            self._scheduled = True
            self._loop.call_soon(self._answer_if_enough)

    def _answer_if_enough(self) -> None:
        self._scheduled = False
        self._try_to_answer(force=False)

    def finish(self) -> None:
        """Answers at the time limit, or when the broker stops."""
        self._try_to_answer(force=True)

    def _try_to_answer(self, *, force: bool) -> None:
        if self.future.done():
            return
        try:
            read = read_shares(self._lives, self._want, force=force)
        except Exception as error:
            self.future.set_exception(error)
            return
        if read is not None:
            self.future.set_result(read)

    def _stop_watching(self) -> None:
        self._timer.cancel()
        for live in self._lives.values():
            live.unwatch(self)
            live.leader.unwatch(self)
