"""Group commit: one fsync at a time per log, shared by all requests that wait for it.

An append that needs a flush is acknowledged and becomes readable only after an fsync that started
after the append. Appends that arrive during one fsync share the next.
"""

import asyncio

from headrace.broker.runtime.offload import Offload
from headrace.replication.replica import Replica


class _Queue:
    """The requests that wait for one replica's log."""

    __slots__ = ("running", "waiting")

    def __init__(self) -> None:
        self.running = False
        self.waiting: list[asyncio.Future[None]] = []


class Flusher:
    """Flushes logs off the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, offload: Offload) -> None:
        self._loop = loop
        self._offload = offload
        self._queues: dict[Replica, _Queue] = {}

    def flush(self, replica: Replica) -> "asyncio.Future[None]":
        """Completes when everything appended so far is on disk; fails with the log's error."""
        queue = self._queues.setdefault(replica, _Queue())
        future: asyncio.Future[None] = self._loop.create_future()
        queue.waiting.append(future)
        if not queue.running:
            self._start_fsync(replica, queue)
        return future

    def is_flushing(self, replica: Replica) -> bool:
        return replica in self._queues

    @property
    def busy(self) -> bool:
        return bool(self._queues)

    def _start_fsync(self, replica: Replica, queue: _Queue) -> None:
        queue.running = True
        waiting, queue.waiting = queue.waiting, []
        up_to = replica.log.log_end_offset
        running = self._offload(replica.log.flush)
        running.add_done_callback(
            lambda done: self._fsync_done(replica, queue, up_to, waiting, done)
        )

    def _fsync_done(
        self,
        replica: Replica,
        queue: _Queue,
        up_to: int,
        waiting: list["asyncio.Future[None]"],
        done: "asyncio.Future[None]",
    ) -> None:
        error = done.exception()
        if error is None:
            replica.flushed(up_to)
        for future in waiting:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        queue.running = False
        if queue.waiting:
            self._start_fsync(replica, queue)
        else:
            self._queues.pop(replica, None)
