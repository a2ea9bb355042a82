"""Reads a task's records: a thread fetches chunks ahead, the caller's thread decodes them.

While Spark consumes one chunk of Arrow data, the thread fetches the next one: fetching waits for
the network, and decoding uses the CPU. Memory is bounded by `fetch_bytes` times `CHUNKS_AHEAD`,
plus the chunk that is being decoded. The size of the backlog does not matter.

Guarantees: every offset of a range is read once, in order. The reader follows a partition to its
new leader until the timeout for an answer. If retention or a recreated topic has removed an offset,
the reader raises an error. It skips the offset only if the caller allows data loss.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from queue import Empty, Full, Queue
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from headrace.client.client import ClusterClient
from headrace.client.results import TopicPartition
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.cluster_client import cluster_client
from headrace.pipeline.source.fetcher import Chunk, Fetcher
from headrace.pipeline.source.settings import BEHIND_DAMAGE, ReadFailed, ReadSettings
from headrace.records.arrow.columns import HEADER, RecordArrays
from headrace.records.arrow.decoder import Damaged, DamagedBatch, Decoded, decode_batches
from headrace.records.batch_header import NO_TIMESTAMP

CHUNKS_AHEAD: Final = 2
QUEUE_POLL_S: Final = 0.2
MAX_DAMAGE_BYTES: Final = 16 << 20
"""The number of bytes of a damaged batch that are kept for inspection."""


def read_range(
    wanted: OffsetRange, settings: ReadSettings, *, fail_on_data_loss: bool = True
) -> Iterator[RecordArrays]:
    """The records of the range in chunks; raises `ReadFailed`.

    If the settings ask for it, a damaged batch becomes a chunk of one row with the batch's bytes as
    its value.
    """
    read = read_ranges([wanted], settings, fail_on_data_loss=fail_on_data_loss)
    try:
        for _, records in read:
            yield records
    finally:
        read.close()


def read_ranges(
    ranges: Sequence[OffsetRange], settings: ReadSettings, *, fail_on_data_loss: bool = True
) -> Generator[tuple[TopicPartition, RecordArrays], None, None]:
    """Like `read_range`, for several ranges in order, over the same connections."""
    fetching = _Fetching(ranges, settings, fail_on_data_loss=fail_on_data_loss)
    try:
        for wanted, chunk in fetching:
            for decoded in _decoded(chunk, wanted, settings):
                if len(decoded.records):
                    yield wanted.topic_partition, decoded.records
                for each in decoded.damaged:
                    yield (
                        wanted.topic_partition,
                        _as_record(each, with_headers=settings.with_headers),
                    )
    finally:
        fetching.stop()


def _decoded(chunk: Chunk, wanted: OffsetRange, settings: ReadSettings) -> Iterator[Decoded]:
    try:
        yield from decode_batches(
            chunk.data,
            start=chunk.start,
            end=min(chunk.end, wanted.end),
            aborted=chunk.aborted,
            with_headers=settings.with_headers,
            skip_damaged=settings.with_damage,
        )
    except DamagedBatch as damaged:
        raise ReadFailed(
            f"{wanted.topic_partition}: the batch at offset {damaged.offset} is damaged "
            f"({damaged.reason}). "
            "Set on_corrupt: skip in the source of a pipeline to continue without it. "
            f"{BEHIND_DAMAGE}"
        ) from damaged


def _as_record(damaged: Damaged, *, with_headers: bool) -> RecordArrays:
    shown = damaged.data[:MAX_DAMAGE_BYTES]
    damage = f"offsets {damaged.start} to {damaged.end - 1} cannot be read: {damaged.reason}"
    if len(shown) < len(damaged.data):
        damage += f" (the first {len(shown)} of {len(damaged.data)} bytes are kept)"
    return RecordArrays(
        key=pa.nulls(1, pa.binary()),
        value=pa.array([shown], pa.binary()),
        offset=pa.array([damaged.start], pa.int64()),
        timestamp_ms=pa.array([NO_TIMESTAMP], pa.int64()),
        timestamp_type=pa.array([0], pa.int32()),
        headers=pa.nulls(1, pa.list_(HEADER)) if with_headers else None,
        key_bytes=0,
        value_bytes=len(shown),
        damage=pa.array([damage], pa.string()),
    )


_Item: TypeAlias = tuple[OffsetRange, Chunk] | BaseException | None
"""None marks the end."""


class _Fetching:
    """A thread with its own event loop that keeps a few chunks ready."""

    def __init__(
        self, ranges: Sequence[OffsetRange], settings: ReadSettings, *, fail_on_data_loss: bool
    ) -> None:
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
        async with cluster_client(self._settings, room=_uninitialized_memory) as client:
            for wanted in self._ranges:
                await self._fetch_range(client, wanted)

    async def _fetch_range(self, client: ClusterClient, wanted: OffsetRange) -> None:
        fetcher = Fetcher(client, wanted, self._settings, fail_on_data_loss=self._fail_on_data_loss)
        offset = wanted.start
        while offset < wanted.end and not self._stopped.is_set():
            chunk, offset = await fetcher.fetch(offset)
            if chunk is not None:
                self._put((wanted, chunk))


def _uninitialized_memory(size_bytes: int) -> memoryview:
    """A `bytearray` would be filled with zeros first."""
    return np.empty(size_bytes, np.uint8).data


def run_on_new_loop(work: Coroutine[object, object, None]) -> None:
    """Runs `work` to completion on this thread, on the fastest event loop available."""
    from headrace.process_tuning import loop_factory

    factory: Callable[[], asyncio.AbstractEventLoop] | None = loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)
