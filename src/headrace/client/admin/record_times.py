"""The time of the first record that a group has not read, for its lag in seconds.

One Fetch for each partition reads a single batch. Transaction markers are no records, so a group in
front of a marker at the end of the log has no lag.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from headrace.client.client import ClusterClient, ToLeader
from headrace.client.errors import ClientError
from headrace.client.results import TopicPartition
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.records.batch_header import headers
from headrace.records.errors import RecordError
from headrace.records.record import iter_records

PARTITION_BYTES: Final = 4096
"""A broker returns at least one whole batch, whatever its size."""
MAX_BATCH_BYTES: Final = 64 << 20
CONCURRENCY: Final = 8
_BY_NAME: Final = 12  # the last version of Fetch with topic names instead of ids


async def first_record_times(
    client: ClusterClient, offsets: Mapping[TopicPartition, int], *, timeout_s: float
) -> dict[TopicPartition, int]:
    """The timestamp in milliseconds of the first record at or after each offset.

    A partition without such a record, or whose leader does not answer, is left out.
    """
    limit = asyncio.Semaphore(CONCURRENCY)

    async def ask(partition: TopicPartition, offset: int) -> int | None:
        async with limit:
            try:
                return await _first_record_time(client, partition, offset, timeout_s)
            except (ClientError, RecordError):
                return None

    times = await asyncio.gather(*(ask(each, offset) for each, offset in offsets.items()))
    return {each: at for each, at in zip(offsets, times, strict=True) if at is not None}


async def _first_record_time(
    client: ClusterClient, partition: TopicPartition, offset: int, timeout_s: float
) -> int | None:
    request = FetchRequest(
        max_bytes=PARTITION_BYTES,
        topics=[
            FetchTopic(
                topic=partition.topic,
                partitions=[
                    FetchPartition(
                        partition=partition.partition,
                        fetch_offset=offset,
                        partition_max_bytes=PARTITION_BYTES,
                    )
                ],
            )
        ],
    )
    answer = await client.send(
        request, FetchResponse, to=ToLeader(*partition), timeout_s=timeout_s, at_most=_BY_NAME
    )
    for topic in answer.responses:
        for each in topic.partitions:
            if not each.error_code and each.records:
                return time_of_first_record(bytes(each.records), offset)
    return None


def time_of_first_record(batches: bytes, offset: int) -> int | None:
    """The timestamp of the first record at or after `offset`; markers are skipped."""
    for position, header in headers(batches, partial_tail=True):
        if header.is_control or header.last_offset < offset:
            continue
        batch = memoryview(batches)[position : position + header.size]
        for record in iter_records(batch, max_bytes=MAX_BATCH_BYTES):
            if record.offset >= offset:
                return record.timestamp
    return None
