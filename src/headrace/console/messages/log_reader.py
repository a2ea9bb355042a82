"""Fetches batches of partitions, for searches, tails and single records."""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.client.client import ClusterClient, ToLeader
from headrace.client.errors import RequestRefused, check_error_code, code_of_number
from headrace.client.results import TopicPartition
from headrace.console.messages.decoding import Coding, Decoder
from headrace.console.messages.query import Position, Query
from headrace.console.messages.scan import Aborted, Match, Scanner
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

SEARCH_BYTES: Final = 8 * 1024 * 1024
ONE_RECORD_BYTES: Final = 64 * 1024
"""A Fetch returns the first batch whole, however small this limit is."""
MAX_WAIT_MS: Final = 500
_BY_NAME: Final = 12
_READ_COMMITTED: Final = 1


class Chunk(NamedTuple):
    """Batches of one partition as fetched; the first may begin before the wanted offset."""

    data: memoryview
    aborted: tuple[Aborted, ...]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


async def fetch(
    client: ClusterClient,
    offsets: Mapping[TopicPartition, int],
    *,
    max_bytes: int = SEARCH_BYTES,
    committed_only: bool = False,
    wait_ms: int = 0,
    timeout_s: float,
) -> dict[TopicPartition, Chunk]:
    """What follows each offset; the partitions have one leader. Raises `ClientError`."""
    by_topic: dict[str, list[FetchPartition]] = {}
    for (topic, index), offset in offsets.items():
        by_topic.setdefault(topic, []).append(
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        )
    first = next(iter(offsets))
    answer = await client.send(
        FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=_READ_COMMITTED if committed_only else 0,
            topics=[FetchTopic(topic=name, partitions=each) for name, each in by_topic.items()],
        ),
        FetchResponse,
        to=ToLeader(first.topic, first.partition),
        timeout_s=timeout_s,
        at_most=_BY_NAME,
        code_of=_retriable_code,
    )
    check_error_code(answer.error_code, "cannot fetch")
    if answer.throttle_time_ms and not answer.responses:
        await asyncio.sleep(min(answer.throttle_time_ms / 1000, timeout_s))
    return {
        TopicPartition(topic.topic, data.partition_index): _chunk(
            TopicPartition(topic.topic, data.partition_index), data
        )
        for topic in answer.responses
        for data in topic.partitions
    }


async def read_record(
    client: ClusterClient, partition: TopicPartition, offset: int, *, timeout_s: float
) -> Match | None:
    """The record with this offset, or the next one that exists in its batch; None at the end."""
    found = await fetch(
        client, {partition: offset}, max_bytes=ONE_RECORD_BYTES, timeout_s=timeout_s
    )
    chunk = found.get(partition)
    if chunk is None:
        return None
    query = Query(Position("offset", offset), committed_only=False, value_coding=Coding.HEX)
    scanned = await asyncio.to_thread(
        Scanner(query, Decoder()).scan,
        chunk.data,
        start=offset,
        end=offset + 1,
        max_matches=1,
    )
    if scanned.problem:
        raise RequestRefused(ErrorCode.CORRUPT_MESSAGE, scanned.problem)
    return scanned.matches[0] if scanned.matches else None


def _retriable_code(answer: FetchResponse) -> int:
    codes = (data.error_code for topic in answer.responses for data in topic.partitions)
    return answer.error_code or next((code for code in codes if code), 0)


def _chunk(partition: TopicPartition, data: FetchPartitionData) -> Chunk:
    if data.error_code:
        raise RequestRefused(code_of_number(data.error_code), f"cannot read {partition}")
    aborted = tuple(
        Aborted(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
    )
    return Chunk(
        memoryview(data.records or b""),
        aborted,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
    )
