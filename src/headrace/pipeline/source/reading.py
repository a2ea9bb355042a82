"""One task's records: fetched ahead on a thread of their own, decoded where they are wanted.

While Spark takes in one chunk of Arrow data, the next is on its way: fetching waits for the
network and decoding uses the processor. Memory is bounded by `fetch_bytes` times the few chunks
that may wait, whatever the backlog.

Guarantees: every offset of the range is read once, in order. Leaders that move or die are followed
until the time allowed for one request is over. An offset that retention or a recreated topic has
taken away is an error with a name, never a gap.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from queue import Empty, Full, Queue
from random import SystemRandom
from typing import Final, NamedTuple

from headrace.client.client import ClusterClient, Leader
from headrace.client.errors import code_of_number
from headrace.client.security import PLAINTEXT, Security
from headrace.clock import SystemClock
from headrace.pipeline.offsets import OffsetRange
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.records.arrow.columns import RecordArrays
from headrace.records.arrow.decoder import Aborted, DamagedBatch, decode_batches
from headrace.records.batch import headers
from headrace.records.errors import RecordError

FETCH_BY_NAME: Final = 12
CHUNKS_AHEAD: Final = 2
READ_COMMITTED: Final = 1
QUEUE_LOOK_S: Final = 0.2


class ReadFailed(Exception):
    """Records that were asked for cannot be had: which, why, and what to do."""


class DataLost(ReadFailed):
    """The offsets are no longer, or not yet, in the log."""


class ReadSettings(NamedTuple):
    """How to reach a cluster and how to read from it."""

    bootstrap_servers: str
    security: Security = PLAINTEXT
    client_id: str = "headrace-pipeline"
    fetch_bytes: int = 16 << 20
    max_wait_ms: int = 500
    request_timeout_s: float = 60.0
    read_committed: bool = True
    with_headers: bool = False
    rack: str = ""


class _Chunk(NamedTuple):
    data: memoryview
    aborted: tuple[Aborted, ...] | None
    start: int


def read_range(wanted: OffsetRange, settings: ReadSettings) -> Iterator[RecordArrays]:
    """The records of the range in chunks; raises `ReadFailed`."""
    fetching = _Fetching(wanted, settings)
    try:
        for chunk in fetching:
            try:
                decoded = decode_batches(
                    chunk.data,
                    start=chunk.start,
                    end=wanted.end,
                    aborted=chunk.aborted,
                    with_headers=settings.with_headers,
                )
            except DamagedBatch as damaged:
                raise ReadFailed(
                    f"{wanted.of}: the batch at offset {damaged.offset} is damaged "
                    f"({damaged.reason}); restore the partition, or start behind it"
                ) from damaged
            if len(decoded.records):
                yield decoded.records
    finally:
        fetching.stop()


class _Fetching:
    """A thread with a loop of its own that keeps a few chunks ready."""

    def __init__(self, wanted: OffsetRange, settings: ReadSettings) -> None:
        self._wanted = wanted
        self._settings = settings
        self._ready: Queue[_Chunk | BaseException | None] = Queue(CHUNKS_AHEAD)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"fetch {wanted.of}", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[_Chunk]:
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
                self._ready.get(timeout=QUEUE_LOOK_S)  # whoever waits to put goes on
            except Empty:
                continue
        self._thread.join()

    def _run(self) -> None:
        try:
            run_on_new_loop(self._fetch_all())
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _put(self, item: _Chunk | BaseException | None) -> None:
        while not self._stopped.is_set():
            try:
                self._ready.put(item, timeout=QUEUE_LOOK_S)
            except Full:
                continue
            return

    async def _fetch_all(self) -> None:
        settings, wanted = self._settings, self._wanted
        offset = wanted.start
        async with ClusterClient(
            settings.bootstrap_servers,
            client_id=settings.client_id,
            clock=SystemClock(),
            random=SystemRandom(),
            security=settings.security,
            request_timeout_s=settings.request_timeout_s,
        ) as client:
            while offset < wanted.end and not self._stopped.is_set():
                data = await self._fetch(client, offset)
                chunk, offset = self._taken(data, offset)
                if chunk is not None:
                    self._put(chunk)

    async def _fetch(self, client: ClusterClient, offset: int) -> FetchPartitionData:
        settings, wanted = self._settings, self._wanted
        request = FetchRequest(
            max_wait_ms=settings.max_wait_ms,
            min_bytes=1,
            max_bytes=settings.fetch_bytes,
            isolation_level=READ_COMMITTED if settings.read_committed else 0,
            topics=[
                FetchTopic(
                    topic=wanted.topic,
                    partitions=[
                        FetchPartition(
                            partition=wanted.partition,
                            fetch_offset=offset,
                            partition_max_bytes=settings.fetch_bytes,
                        )
                    ],
                )
            ],
            rack_id=settings.rack,
        )
        answer = await client.send(
            request,
            FetchResponse,
            to=Leader(wanted.topic, wanted.partition),
            timeout_s=settings.request_timeout_s,
            at_most=FETCH_BY_NAME,
            code_of=lambda answer: answer.error_code or _partition(answer).error_code,
        )
        return _partition(answer)

    def _taken(self, data: FetchPartitionData, offset: int) -> tuple[_Chunk | None, int]:
        """The chunk to decode, if there is one, and where to read on."""
        wanted = self._wanted
        if data.error_code:
            raise _refused(wanted, offset, code_of_number(data.error_code), data)
        records = memoryview(data.records or b"")
        next_offset = offset
        try:
            for _, header in headers(records, partial_tail=True):
                next_offset = max(next_offset, header.next_offset)
        except RecordError as error:
            raise ReadFailed(f"{wanted.of}: what follows offset {next_offset}: {error}") from error
        if next_offset == offset:
            if data.last_stable_offset < wanted.end and self._settings.read_committed:
                return None, offset  # a transaction is still open before the end
            if data.high_watermark < wanted.end:
                raise DataLost(
                    f"{wanted.of} ends at offset {data.high_watermark}, but offsets up to "
                    f"{wanted.end} were there before: the topic was recreated or lost data. "
                    "Check the topic; then start this pipeline or query anew"
                )
            return None, wanted.end  # compaction has removed the last records
        aborted = None
        if self._settings.read_committed:
            aborted = tuple(
                Aborted(each.producer_id, each.first_offset)
                for each in data.aborted_transactions or ()
            )
        return _Chunk(records, aborted, offset), next_offset


def _partition(answer: FetchResponse) -> FetchPartitionData:
    return answer.responses[0].partitions[0]


def _refused(
    wanted: OffsetRange, offset: int, code: ErrorCode, data: FetchPartitionData
) -> ReadFailed:
    if code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return DataLost(
            f"{wanted.of}: offset {offset} is not in the log (any more): retention has deleted it, "
            "or the topic was recreated. Set failOnDataLoss to false to go on with what is there"
        )
    return ReadFailed(f"{wanted.of}: the broker refuses to read from offset {offset}: {code.name}")


def run_on_new_loop(work: Coroutine[object, object, None]) -> None:
    """Runs `work` to its end on this thread, on the fastest loop there is."""
    from headrace.runtime import loop_factory

    factory: Callable[[], asyncio.AbstractEventLoop] | None = loop_factory()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)
