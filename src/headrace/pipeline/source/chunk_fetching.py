"""Fetches ranges of offsets in a thread, a few chunks ahead of their reader.

Fetching waits for the network while the reader decodes. Memory is bounded by `fetch_bytes` times
`CHUNKS_AHEAD`. The size of the backlog does not matter.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from queue import Empty, Full, Queue
from typing import Final, TypeAlias

from headrace.client.client import ClusterClient
from headrace.client.network.frames import Room
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.cluster_client import cluster_client
from headrace.pipeline.source.fetcher import Chunk, Fetcher
from headrace.pipeline.source.settings import ReadSettings

CHUNKS_AHEAD: Final = 2
QUEUE_POLL_S: Final = 0.2

_Item: TypeAlias = tuple[OffsetRange, Chunk] | BaseException | None
"""None marks the end."""


class ChunkFetching:
    """A thread with its own event loop that keeps a few chunks ready."""

    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        settings: ReadSettings,
        *,
        fail_on_data_loss: bool = True,
        room: Room = bytearray,
    ) -> None:
        """`room` allocates the memory for large responses."""
        self._room = room
        self._ranges = ranges
        self._settings = settings
        self._fail_on_data_loss = fail_on_data_loss
        self._ready: Queue[_Item] = Queue(CHUNKS_AHEAD)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fetch", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[tuple[OffsetRange, Chunk]]:
        while True:
            ready = self._ready.get()
            if ready is None:
                return
            if isinstance(ready, BaseException):
                raise ready
            yield ready

    def stop(self) -> None:
        self._stopped.set()
        while self._thread.is_alive():
            try:
                self._ready.get(timeout=QUEUE_POLL_S)  # makes room for a blocked put
            except Empty:
                continue
        self._thread.join()

    def _run(self) -> None:
        try:
            run_on_new_loop(self._fetch_all())
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _put(self, item: _Item) -> None:
        while not self._stopped.is_set():
            try:
                self._ready.put(item, timeout=QUEUE_POLL_S)
            except Full:
                continue
            return

    async def _fetch_all(self) -> None:
        async with cluster_client(self._settings, room=self._room) as client:
            for wanted in self._ranges:
                await self._fetch_range(client, wanted)

    async def _fetch_range(self, client: ClusterClient, wanted: OffsetRange) -> None:
        fetcher = Fetcher(client, wanted, self._settings, fail_on_data_loss=self._fail_on_data_loss)
        offset = wanted.start
        while offset < wanted.end and not self._stopped.is_set():
            chunk, offset = await fetcher.fetch(offset)
            if chunk is not None:
                self._put((wanted, chunk))


def run_on_new_loop(work: Coroutine[object, object, None]) -> None:
    """Runs `work` to completion on this thread, on the fastest event loop available."""
    from headrace.process_tuning import loop_factory

    factory: Callable[[], asyncio.AbstractEventLoop] | None = loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)
