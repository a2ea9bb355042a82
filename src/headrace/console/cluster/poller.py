"""Refreshes a snapshot in the background, in a thread with an event loop of its own.

Decoding the metadata of 10,000 partitions takes a good part of a second. In a thread it delays a
page by the time of one switch, not by that. A snapshot is immutable, and its publication is the
assignment of one attribute.

Polling pauses while no page has asked for the snapshot for `PAUSE_AFTER_S`: an unattended console
costs the cluster nothing.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.clock import Clock
from headrace.console.cluster.rates import History, HistoryPoint, with_rates
from headrace.console.cluster.snapshot import ClusterSnapshot
from headrace.console.cluster.snapshot_reader import read_snapshot
from headrace.process_tuning import loop_factory

T = TypeVar("T")

PAUSE_AFTER_S: Final = 300.0
PAUSE_PER_PARTITION_S: Final = 0.0005
"""A large cluster is refreshed less often: 10,000 partitions cost about 0.6 s of computing."""
JOIN_TIMEOUT_S: Final = 5.0


class BackgroundLoop:
    """An event loop in a thread, for all pollers of the console."""

    def __init__(self) -> None:
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, name="console-poller", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._started.result()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._started.result())

    def stop(self) -> None:
        loop = self._started.result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            loop = runner.get_loop()
            self._started.set_result(loop)
            loop.run_forever()


class View(NamedTuple):
    """What pages see: the latest snapshot, and the error if the latest refresh failed."""

    snapshot: ClusterSnapshot | None
    problem: str | None


class Poller:
    """Polls one cluster with one visitor's rights."""

    def __init__(
        self,
        new_client: Callable[[], ClusterClient],
        background: BackgroundLoop,
        *,
        clock: Clock,
        interval_s: float,
        timeout_s: float,
    ) -> None:
        self.view = View(None, None)
        self._new_client = new_client
        self._background = background
        self._clock = clock
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._history = History.empty()
        self._history_copy: tuple[HistoryPoint, ...] = ()
        self._wanted_s = clock.monotonic()
        self._wake: asyncio.Event | None = None
        self._first: Future[None] = Future()
        self._waiting: list[Future[None]] = []
        self._task: Future[None] | None = None
        self._polling: asyncio.Task[None] | None = None

    @property
    def history(self) -> tuple[HistoryPoint, ...]:
        return self._history_copy

    def touch(self) -> None:
        """Notes that a page is interested, and resumes a paused poller."""
        now_s = self._clock.monotonic()
        paused = now_s - self._wanted_s > PAUSE_AFTER_S
        self._wanted_s = now_s
        if self._task is None:
            self._task = self._background.submit(self._poll())
        elif paused:
            self._background.submit(self._wake_up())

    async def first(self, timeout_s: float) -> None:
        """Waits for the first refresh, or its failure."""
        self.touch()
        if not self._first.done():
            await asyncio.wait([asyncio.wrap_future(self._first)], timeout=timeout_s)

    async def refresh(self, timeout_s: float) -> None:
        """Refreshes now, after a change that the visitor wants to see."""
        self.touch()
        done: Future[None] = Future()
        self._background.submit(self._wake_up(done))
        await asyncio.wait([asyncio.wrap_future(done)], timeout=timeout_s)

    async def close(self) -> None:
        if self._task is not None:
            ended = self._background.submit(self._end())
            await asyncio.wait([asyncio.wrap_future(ended)], timeout=JOIN_TIMEOUT_S)

    async def _end(self) -> None:
        """In the poller's loop: waits until its client has closed its connections."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait([self._polling])

    async def _wake_up(self, done: Future[None] | None = None) -> None:
        if done is not None:
            self._waiting.append(done)
        if self._wake is not None:
            self._wake.set()

    async def _poll(self) -> None:
        self._polling = asyncio.current_task()
        self._wake = asyncio.Event()
        async with self._new_client() as client:
            while True:
                waiting, self._waiting = self._waiting, []
                await self._refresh(client)
                if not self._first.done():
                    self._first.set_result(None)
                for done in waiting:
                    if not done.done():
                        done.set_result(None)
                snapshot = self.view.snapshot
                partitions = 0 if snapshot is None else snapshot.partitions
                await self._pause(max(self._interval_s, partitions * PAUSE_PER_PARTITION_S))

    async def _pause(self, interval_s: float) -> None:
        assert self._wake is not None
        if self._waiting:
            return
        idle = self._clock.monotonic() - self._wanted_s > PAUSE_AFTER_S
        try:
            async with asyncio.timeout(None if idle else interval_s):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _refresh(self, client: ClusterClient) -> None:
        before = self.view.snapshot
        try:
            read = await read_snapshot(client, clock=self._clock, timeout_s=self._timeout_s)
        except ClientError as error:
            self.view = View(before, str(error))
            return
        snapshot = with_rates(read, before)
        self._history.add(snapshot)
        self._history_copy = tuple(self._history.points)
        self.view = View(snapshot, None)
