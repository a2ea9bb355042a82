"""Reads records for a test from partitions, without a group, up to a count or to the end."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.admin.offsets import list_bounds
from headrace.client.client import ClusterClient, ToBroker
from headrace.client.errors import (
    ClientError,
    DeadlineExceeded,
    LeaderUnknown,
    RequestRefused,
    code_of_number,
)
from headrace.client.results import Refusal, TopicPartition
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.records.batch_header import headers
from headrace.records.control import ControlType, read_control
from headrace.records.record import Headers, iter_records

MAX_WAIT_S: Final = 0.5
MAX_BYTES: Final = 64 * 1024 * 1024
PAUSE_S: Final = 0.02
MIN_REQUEST_S: Final = 5.0
_BY_NAME: Final = 12  # the newest version of Fetch that has topic names instead of ids


class DeadlineMissed(AssertionError):
    """The records did not arrive before the deadline; `records` are those that did."""

    def __init__(self, message: str, records: Sequence["ReceivedRecord"]) -> None:
        super().__init__(message)
        self.records = tuple(records)


@dataclass(frozen=True, slots=True)
class ReceivedRecord:
    """A record, with its partition and offset."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The records to read: `count` records, or with None all records up to the current end."""

    topic: str
    count: int | None
    partition: int | None
    from_offset: int
    read_committed: bool
    timeout_s: float


async def consume(client: ClusterClient, wanted: ReadRequest) -> list[ReceivedRecord]:
    """Raises `DeadlineMissed`."""
    reading = _Reading(client, wanted)
    while True:
        try:
            if await reading.fetch_round():
                return reading.records
        except ClientError as error:
            if not (error.retriable or isinstance(error, DeadlineExceeded)):
                raise
            client.metadata.forget(wanted.topic)
            await asyncio.sleep(PAUSE_S)
        if reading.remaining_s() <= 0:
            raise DeadlineMissed(reading.timeout_message(), reading.records)


class _Reading:
    def __init__(self, client: ClusterClient, wanted: ReadRequest) -> None:
        self.records: list[ReceivedRecord] = []
        self._client = client
        self._wanted = wanted
        self._deadline = time.monotonic() + wanted.timeout_s
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def remaining_s(self) -> float:
        return self._deadline - time.monotonic()

    def _request_s(self) -> float:
        """The request timeout. A short deadline limits the wait for records, not for a response."""
        return max(MIN_REQUEST_S, self.remaining_s())

    def timeout_message(self) -> str:
        wanted = self._wanted
        what = "the end" if wanted.count is None else f"{wanted.count} records"
        got = [record.value for record in self.records[-5:]]
        return (
            f"{what} of {wanted.topic!r} not within {wanted.timeout_s:g} s: "
            f"got {len(self.records)}, the last {got}"
        )

    async def fetch_round(self) -> bool:
        """Does one round of fetches; returns whether the read is complete."""
        if not self._positions and not await self._load_positions():
            await asyncio.sleep(PAUSE_S)
            return False
        if self._is_complete():
            return True
        led: dict[int, list[int]] = {}
        for partition in self._positions:
            leader = self._client.metadata.leader_of(self._wanted.topic, partition)
            led.setdefault(leader, []).append(partition)
        await asyncio.gather(*(self._fetch(leader, of) for leader, of in led.items()))
        return self._is_complete()

    async def _load_positions(self) -> bool:
        """Whether the topic exists; the application under test may create it later."""
        topic = self._wanted.topic
        await self._client.refresh([topic], timeout_s=self._request_s())
        info = self._client.metadata.topic(topic)
        if info is None:
            return False
        chosen = self._wanted.partition
        partitions = [
            TopicPartition(topic, index)
            for index in sorted(info.partitions)
            if chosen is None or index == chosen
        ]
        bounds = await list_bounds(self._client, partitions, timeout_s=self._request_s())
        if not bounds or any(isinstance(bound, Refusal) for bound in bounds.values()):
            return False
        for (_, index), bound in bounds.items():
            assert not isinstance(bound, Refusal)
            self._positions[index] = max(self._wanted.from_offset, bound[0])
            self._ends[index] = bound[1]
        return True

    def _is_complete(self) -> bool:
        count = self._wanted.count
        if count is not None:
            del self.records[count:]
            return len(self.records) == count
        return all(self._positions[index] >= end for index, end in self._ends.items())

    async def _fetch(self, leader: int, partitions: Sequence[int]) -> None:
        wanted = self._wanted
        wait_s = min(MAX_WAIT_S, max(0.0, self.remaining_s()))
        if wanted.count is None:
            wait_s = min(wait_s, PAUSE_S)  # reads only up to the current end
        topic = FetchTopic(
            topic=wanted.topic,
            partitions=[
                FetchPartition(
                    partition=index,
                    fetch_offset=self._positions[index],
                    partition_max_bytes=MAX_BYTES,
                )
                for index in partitions
            ],
        )
        request = FetchRequest(
            max_wait_ms=int(wait_s * 1000),
            min_bytes=1,
            isolation_level=int(wanted.read_committed),
            topics=[topic],
        )
        answer = await self._client.send(
            request,
            FetchResponse,
            to=ToBroker(leader),
            timeout_s=self._request_s(),
            at_most=_BY_NAME,
        )
        for each in answer.responses:
            for data in each.partitions:
                self._append_records(data)

    def _append_records(self, data: FetchPartitionData) -> None:
        index = data.partition_index
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._positions.clear()  # retention deleted the records first
            return
        if data.error_code:
            code = code_of_number(data.error_code)
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise LeaderUnknown(f"{self._wanted.topic}-{index} does not exist any more")
            raise RequestRefused(code, f"fetch from {self._wanted.topic}-{index}")
        for record in self._records(data):
            if record.offset >= self._positions[index]:
                self.records.append(record)
        self._positions[index] = max(self._positions[index], self._next_offset(data))
        if self._wanted.read_committed:
            # Later records belong to an open transaction.
            self._ends[index] = min(self._ends[index], data.last_stable_offset)

    def _next_offset(self, data: FetchPartitionData) -> int:
        found = list(headers(data.records or b"", partial_tail=True))
        return found[-1][1].next_offset if found else 0

    def _records(self, data: FetchPartitionData) -> Iterator[ReceivedRecord]:
        """The records an application gets: without markers and aborted records."""
        held = memoryview(data.records or b"")
        aborted = sorted(
            (one.first_offset, one.producer_id) for one in data.aborted_transactions or ()
        )
        dropped: set[int] = set()
        for at, header in headers(held, partial_tail=True):
            while aborted and aborted[0][0] <= header.last_offset:
                dropped.add(aborted.pop(0)[1])
            records = iter_records(held[at : at + header.size], max_bytes=MAX_BYTES)
            if header.is_control:
                if read_control(next(records)).type is ControlType.ABORT:
                    dropped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in dropped):
                for offset, timestamp, key, value, pairs in records:
                    yield ReceivedRecord(
                        self._wanted.topic,
                        data.partition_index,
                        offset,
                        timestamp,
                        key,
                        value,
                        pairs,
                    )
