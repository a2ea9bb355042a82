"""Fetches the bytes of one partition in order, and follows its leader.

An empty answer does not prove that the partition has no more records. A quota may delay the data
(the response then contains no partition). A leader may point to a nearer replica. A new leader may
not know yet how much of its log is committed. If the fetcher took one of these answers for the end,
it would leave a gap.
"""

import asyncio
from typing import Final, NamedTuple

from headrace.client.admin.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.client import ClusterClient, ToBroker, ToLeader
from headrace.client.errors import ClientError, code_of_number
from headrace.client.results import Refusal
from headrace.pipeline.core.offsets import OffsetRange
from headrace.pipeline.source.settings import BEHIND_DAMAGE, DataLost, ReadFailed, ReadSettings
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.records.aborted_transactions import Aborted
from headrace.records.batch_header import BatchHeader, check_batch, headers
from headrace.records.errors import CorruptBatch, RecordError

FETCH_BY_NAME: Final = 12
READ_COMMITTED: Final = 1
LONGEST_PAUSE_S: Final = 1.0
EMPTY_ANSWERS: Final = 3
"""After this number of empty answers in a row, each after `max_wait_ms`, the fetcher concludes that
compaction has removed the rest of the range."""


class Chunk(NamedTuple):
    """Batches as fetched, and the aborted transactions that a reader of committed data skips."""

    data: memoryview
    aborted: tuple[Aborted, ...] | None
    start: int
    end: int
    """The offset after the last batch, where the next chunk begins."""


class _Placed(NamedTuple):
    pos: int
    header: BatchHeader


class Fetcher:
    """Reads one range; raises `ReadFailed` after the timeout for one answer."""

    def __init__(
        self,
        client: ClusterClient,
        wanted: OffsetRange,
        settings: ReadSettings,
        *,
        fail_on_data_loss: bool = True,
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._settings = settings
        self._fail_on_data_loss = fail_on_data_loss
        self._rack = settings.rack
        self._replica: int | None = None
        self._empty = 0

    async def fetch(self, offset: int) -> tuple[Chunk | None, int]:
        """The chunk that begins at the offset, if one came, and the next offset to read."""
        try:
            return await self._fetch(offset)
        except DataLost:
            if self._fail_on_data_loss:
                raise
            return None, await self._next_existing_offset(offset)
        except ClientError as error:
            raise ReadFailed(
                f"{self._wanted.topic_partition} cannot be read from offset {offset}: {error}"
            ) from error

    async def _fetch(self, offset: int) -> tuple[Chunk | None, int]:
        answer = await self._answer(offset)
        data = _partition(answer)
        if data is None:
            await asyncio.sleep(min(answer.throttle_time_ms / 1000, LONGEST_PAUSE_S))
            return None, offset
        if data.error_code:
            raise self._refused(offset, code_of_number(data.error_code))
        if data.preferred_read_replica >= 0 and self._replica is None:
            self._replica = data.preferred_read_replica
            return None, offset
        records = memoryview(data.records or b"")
        next_offset = self._end_of(records, offset, data.high_watermark)
        if next_offset == offset:
            return None, await self._offset_after_empty_response(data, offset)
        self._empty = 0
        return Chunk(records, self._aborted(data), offset, next_offset), next_offset

    async def _answer(self, offset: int) -> FetchResponse:
        if self._replica is not None:
            try:
                answer = await self._send(offset, ToBroker(self._replica), retry=False)
                data = _partition(answer)
                if data is None or not data.error_code:
                    return answer
            except ClientError as error:
                if not error.retriable:
                    raise
            self._read_from_leader_only()
        return await self._send(offset, ToLeader(self._wanted.topic, self._wanted.partition))

    def _read_from_leader_only(self) -> None:
        """Stops using a replica that fails or lags, for the rest of the range."""
        self._replica = None
        self._rack = ""

    async def _send(
        self, offset: int, to: ToBroker | ToLeader, *, retry: bool = True
    ) -> FetchResponse:
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
            rack_id=self._rack,
        )
        return await self._client.send(
            request,
            FetchResponse,
            to=to,
            timeout_s=settings.api_timeout_s,
            retry=retry,
            at_most=FETCH_BY_NAME,
            code_of=_code,
        )

    def _end_of(self, records: memoryview, offset: int, high_watermark: int) -> int:
        """The offset after the last batch; checks that the batches are in log order.

        The checksum does not cover base offsets. A damaged base offset would cause a gap, or wrong
        offsets for records. The decoder finds all other damage; this check only ensures correct
        offsets.
        """
        end, before = offset, None
        try:
            for pos, header in headers(records, partial_tail=True):
                first = header.base_offset
                lowest = 0 if before is None else end
                if before is not None and first < end and _is_damaged(records, *before):
                    lowest = before.header.base_offset + 1  # its length is wrong
                if not lowest <= first < high_watermark:
                    raise CorruptBatch(
                        f"a batch that begins at offset {first} is damaged: the log goes from "
                        f"{lowest} to {high_watermark} there"
                    )
                end = max(end, first) + 1 if header.last_offset_delta < 0 else header.next_offset
                end = min(end, high_watermark)
                before = _Placed(pos, header)
        except RecordError as error:
            raise ReadFailed(
                f"{self._wanted.topic_partition}: what follows offset {end} is damaged: {error}. "
                f"{BEHIND_DAMAGE}"
            ) from error
        return max(end, offset)

    async def _offset_after_empty_response(self, data: FetchPartitionData, offset: int) -> int:
        """The next offset to read after an answer without records."""
        wanted = self._wanted
        if data.high_watermark < wanted.end:
            if self._replica is not None:
                self._read_from_leader_only()
            else:
                await self._check_end()
            return offset
        if self._settings.read_committed and data.last_stable_offset < wanted.end:
            return offset  # a transaction is still open before the end
        self._empty += 1
        return offset if self._empty < EMPTY_ANSWERS else wanted.end

    async def _check_end(self) -> None:
        """Raises `DataLost` if the log is shorter than before.

        A newly elected leader learns from its followers how much is committed. Until then, a fetch
        returns less than before, and ListOffsets returns an error (KIP-207).
        """
        end = await self._list_offset(LATEST)
        if end < self._wanted.end:
            raise DataLost(
                f"{self._wanted.topic_partition} ends at offset {end}, but offsets up to "
                f"{self._wanted.end} "
                "were there before: the topic was recreated or lost data. "
                "Check the topic; then start this pipeline or query anew"
            )

    async def _next_existing_offset(self, offset: int) -> int:
        """The next offset that exists, or the end of the range."""
        first = await self._list_offset(EARLIEST)
        return min(first, self._wanted.end) if first > offset else self._wanted.end

    async def _list_offset(self, which: int) -> int:
        client, settings, partition = self._client, self._settings, self._wanted.topic_partition
        client.metadata.forget(partition.topic)
        timeout_s = settings.api_timeout_s
        found = await list_offsets(
            client, {partition: which}, timeout_s=timeout_s, patience_s=timeout_s
        )
        bound = found[partition]
        if isinstance(bound, Refusal):
            raise ReadFailed(f"{partition}: {bound}")
        return bound.offset

    def _aborted(self, data: FetchPartitionData) -> tuple[Aborted, ...] | None:
        if not self._settings.read_committed:
            return None
        return tuple(
            Aborted(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
        )

    def _refused(self, offset: int, code: ErrorCode) -> ReadFailed:
        of = self._wanted.topic_partition
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return DataLost(
                f"{of}: offset {offset} is not in the log (any more): retention has deleted it, "
                "or the topic was recreated. Set failOnDataLoss to false to go on with what is "
                "there"
            )
        return ReadFailed(f"{of}: the broker refuses to read from offset {offset}: {code.name}")


def _is_damaged(records: memoryview, pos: int, header: BatchHeader) -> bool:
    try:
        check_batch(records, pos, header)
    except RecordError:
        return True
    return False


def _partition(answer: FetchResponse) -> FetchPartitionData | None:
    """None if a quota delays the data."""
    return answer.responses[0].partitions[0] if answer.responses else None


def _code(answer: FetchResponse) -> int:
    data = _partition(answer)
    return answer.error_code or (data.error_code if data is not None else 0)
