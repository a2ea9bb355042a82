"""A search over the partitions of a topic, as a stream of events.

Partitions are read in parallel with a client of their own, and each next chunk is fetched while a
worker thread scans the one before. Closing the generator cancels everything.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from headrace.client.admin.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError, RequestRefused
from headrace.client.results import TopicPartition
from headrace.clock import Clock
from headrace.console.messages.decoding import Decoder
from headrace.console.messages.log_reader import MAX_WAIT_MS, SEARCH_BYTES, Chunk, fetch
from headrace.console.messages.query import Query, first_window, windows_backwards
from headrace.console.messages.scan import Match, Scanned, Scanner
from headrace.protocol.errors import ErrorCode
from headrace.records.batch_header import headers
from headrace.records.errors import RecordError

PARALLEL: Final = 2
"""Partitions searched at once; more only take turns with the interpreter."""
BROWSE_BYTES: Final = 1024 * 1024
PROGRESS_S: Final = 0.2
MAX_TAIL_S: Final = 3600.0
TAIL_BYTES: Final = 2 * 1024 * 1024
QUEUE_EVENTS: Final = 1000
MAX_KEPT: Final = 100_000
"""Matches of one chunk that is read backwards or followed."""


@dataclass(frozen=True, slots=True)
class Found:
    """A matching record."""

    partition: int
    match: Match


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the search is; offsets count also where compaction left gaps."""

    records: int
    log_bytes: int
    matched: int
    done_offsets: int
    all_offsets: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Problem:
    """A part that could not be read; the search goes on without it."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The last event; `reason` is `limit` or `end`."""

    reason: str


SearchEvent: TypeAlias = Found | Progress | Problem | Ended


class Search:
    """One search; `events` runs it once."""

    def __init__(
        self,
        client: ClusterClient,
        topic: str,
        partitions: Sequence[int],
        query: Query,
        decoder: Decoder,
        *,
        clock: Clock,
        timeout_s: float,
    ) -> None:
        self._client = client
        self._topic = topic
        self._partitions = [TopicPartition(topic, index) for index in partitions]
        self._query = query
        self._decoder = decoder
        self._clock = clock
        self._timeout_s = timeout_s
        self._queue: asyncio.Queue[SearchEvent] = asyncio.Queue(QUEUE_EVENTS)
        self._began_s = clock.monotonic()
        self._reported_s = 0.0
        self._records = self._log_bytes = self._matched = 0
        self._done_offsets = self._all_offsets = 0

    async def events(self) -> AsyncGenerator[SearchEvent, None]:
        """Yields until the limit or the end is reached. Raises `ClientError` at the start only."""
        task = asyncio.ensure_future(self._run())
        getter: asyncio.Future[SearchEvent] | None = None
        try:
            while True:
                getter = asyncio.ensure_future(self._queue.get())
                await asyncio.wait({task, getter}, return_when=asyncio.FIRST_COMPLETED)
                if getter.done():
                    yield getter.result()
                    continue
                getter.cancel()
                while not self._queue.empty():
                    yield self._queue.get_nowait()
                yield self._progress()
                yield Ended(task.result())
                return
        finally:
            for each in (task, getter):
                if each is not None and not each.done():
                    each.cancel()
                    with suppress(asyncio.CancelledError):
                        await each

    async def _run(self) -> str:
        if self._query.follows:
            return await self._tail()
        bounds = await self._bounds()
        self._all_offsets = sum(end - start for start, end in bounds.values())
        if self._query.position.kind == "newest":
            return await self._newest(bounds)
        await self._search_all({each: [bound] for each, bound in bounds.items()})
        return "limit" if self._matched >= self._query.limit else "end"

    # -- Ranges ---------------------------------------------------------------------------------

    async def _bounds(self) -> dict[TopicPartition, tuple[int, int]]:
        """The range of each partition, from the query's position to the end."""
        wanted, timeout_s = self._partitions, self._timeout_s
        first, last = await asyncio.gather(
            list_offsets(self._client, dict.fromkeys(wanted, EARLIEST), timeout_s=timeout_s),
            list_offsets(
                self._client,
                dict.fromkeys(wanted, LATEST),
                timeout_s=timeout_s,
                read_committed=self._query.committed_only,
            ),
        )
        at: Mapping[TopicPartition, object] = {}
        position = self._query.position
        if position.kind == "time":
            at = await list_offsets(
                self._client, dict.fromkeys(wanted, position.value), timeout_s=timeout_s
            )
        bounds = {}
        for each in wanted:
            start, end = first[each], last[each]
            if not isinstance(start, FoundOffset) or not isinstance(end, FoundOffset):
                refusal = end if isinstance(start, FoundOffset) else start
                await self._queue.put(Problem(f"partition {each.partition}: {refusal}"))
                continue
            begin = start.offset
            if position.kind == "offset":
                begin = min(max(begin, position.value), end.offset)
            elif position.kind == "time":
                found = at.get(each)
                known = isinstance(found, FoundOffset) and found.offset >= 0
                begin = found.offset if isinstance(found, FoundOffset) and known else end.offset
            bounds[each] = (min(begin, end.offset), end.offset)
        return bounds

    # -- Searching ------------------------------------------------------------------------------

    async def _newest(self, bounds: Mapping[TopicPartition, tuple[int, int]]) -> str:
        """From the end backwards, in rounds of windows that grow, until enough is found."""
        first = first_window(self._query, [each.partition for each in bounds])
        windows = {
            each: windows_backwards(start, end, first) for each, (start, end) in bounds.items()
        }
        rounds = max(map(len, windows.values()), default=0)
        for number in range(rounds):
            part = {each: [found[number]] for each, found in windows.items() if number < len(found)}
            await self._search_all(part, keep_newest=True)
            if self._matched >= self._query.limit:
                return "limit"
        return "end"

    async def _search_all(
        self,
        ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]],
        *,
        keep_newest: bool = False,
    ) -> None:
        turns = asyncio.Semaphore(PARALLEL)
        share = self._query.limit
        if not self._query.has_filter:
            share = -(-self._query.limit // max(1, len(ranges)))

        async def search(partition: TopicPartition, start: int, end: int) -> None:
            async with turns:
                await self._search_range(partition, start, end, share, keep_newest)

        async with asyncio.TaskGroup() as group:
            for partition, parts in ranges.items():
                for start, end in parts:
                    group.create_task(search(partition, start, end))

    async def _search_range(
        self, partition: TopicPartition, start: int, end: int, share: int, keep_newest: bool
    ) -> None:
        scanner = Scanner(self._query, self._decoder)
        offset, matched = start, 0
        chunk = await self._fetch(partition, offset, end)
        while chunk is not None and offset < end:
            following: asyncio.Task[Chunk | None] | None = None
            if self._query.has_filter:
                after = _end_of(chunk, offset)
                if after < end and after > offset:
                    following = asyncio.ensure_future(self._fetch(partition, after, end))
            try:
                # Of a window that is read backwards, all matches count: the newest are at its end.
                wanted = MAX_KEPT if keep_newest else share - matched
                scanned = await asyncio.to_thread(
                    scanner.scan,
                    chunk.data,
                    start=offset,
                    end=end,
                    max_matches=max(1, wanted),
                    aborted=chunk.aborted,
                )
                matched += len(scanned.matches)
                if scanned.next_offset <= offset:
                    scanned.next_offset = end  # compaction removed the rest of the range
                await self._take(partition, scanned, scanned.next_offset - offset)
                offset = min(scanned.next_offset, end)
                full = self._matched >= self._query.limit or matched >= share
                if offset >= end or (full and not keep_newest):
                    return
                if following is not None:
                    chunk, following = await following, None
                else:
                    chunk = await self._fetch(partition, offset, end)
            finally:
                if following is not None:
                    following.cancel()
                    with suppress(asyncio.CancelledError, ClientError):
                        await following

    async def _fetch(self, partition: TopicPartition, offset: int, end: int) -> Chunk | None:
        if offset >= end:
            return None
        small = not self._query.has_filter
        try:
            found = await fetch(
                self._client,
                {partition: offset},
                max_bytes=BROWSE_BYTES if small else SEARCH_BYTES,
                committed_only=self._query.committed_only,
                timeout_s=self._timeout_s,
            )
        except RequestRefused as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                return None  # retention removed it in the meantime
            await self._queue.put(Problem(str(error)))
            return None
        except ClientError as error:
            await self._queue.put(Problem(f"partition {partition.partition}: {error}"))
            return None
        return found.get(partition)

    async def _take(self, partition: TopicPartition, scanned: Scanned, offsets: int) -> None:
        self._records += scanned.records
        self._log_bytes += scanned.log_bytes
        self._done_offsets += offsets
        for match in scanned.matches[-self._query.limit :]:
            self._matched += 1
            await self._queue.put(Found(partition.partition, match))
        if scanned.problem:
            await self._queue.put(Problem(scanned.problem))
        now_s = self._clock.monotonic()
        if now_s - self._reported_s >= PROGRESS_S:
            self._reported_s = now_s
            await self._queue.put(self._progress())

    def _progress(self) -> Progress:
        return Progress(
            self._records,
            self._log_bytes,
            self._matched,
            min(self._done_offsets, self._all_offsets),
            self._all_offsets,
            self._clock.monotonic() - self._began_s,
        )

    # -- Live tail ------------------------------------------------------------------------------

    async def _tail(self) -> str:
        """Follows the ends of all partitions, with one waiting request for each leader."""
        last = await list_offsets(
            self._client, dict.fromkeys(self._partitions, LATEST), timeout_s=self._timeout_s
        )
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for each, found in last.items():
            if isinstance(found, FoundOffset):
                leader = self._client.metadata.leader_of(*each)
                by_leader.setdefault(leader, {})[each] = found.offset
            else:
                await self._queue.put(Problem(f"partition {each.partition}: {found}"))
        async with asyncio.TaskGroup() as group:
            for offsets in by_leader.values():
                group.create_task(self._tail_of(offsets))
        return "end"

    async def _tail_of(self, offsets: dict[TopicPartition, int]) -> None:
        scanners = {each: Scanner(self._query, self._decoder) for each in offsets}
        while self._clock.monotonic() - self._began_s < MAX_TAIL_S:
            try:
                chunks = await fetch(
                    self._client,
                    offsets,
                    max_bytes=TAIL_BYTES,
                    committed_only=self._query.committed_only,
                    wait_ms=MAX_WAIT_MS,
                    timeout_s=self._timeout_s,
                )
            except ClientError as error:
                await self._queue.put(Problem(f"the live tail has stopped: {error}"))
                return
            for partition, chunk in chunks.items():
                if not len(chunk.data):
                    continue
                scanned = await asyncio.to_thread(
                    scanners[partition].scan,
                    chunk.data,
                    start=offsets[partition],
                    end=2**63 - 1,
                    max_matches=MAX_KEPT,
                    aborted=chunk.aborted,
                )
                offsets[partition] = max(offsets[partition], scanned.next_offset)
                await self._take(partition, scanned, 0)


def _end_of(chunk: Chunk, offset: int) -> int:
    """The offset after the last whole batch."""
    end = offset
    with suppress(RecordError):  # the scan reports it
        for _, header in headers(chunk.data, partial_tail=True):
            end = header.next_offset
    return end
