"""Finds out from the partitions of a transaction whether it was committed.

It is used if the outcome is not stored elsewhere. The search begins at the end offset that a
partition had before the transaction began. The first records of the producer after it belong to the
transaction. The producer's next control record shows how the transaction ended.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from headrace.client.admin.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.client import ClusterClient, ToLeader
from headrace.client.results import Refusal, TopicPartition
from headrace.pipeline.producer.errors import ProducerFailed
from headrace.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.records.batch_header import headers
from headrace.records.control import ControlType, read_control
from headrace.records.record import iter_records

FETCH_BYTES: Final = 4 << 20
FETCH_BY_NAME: Final = 12
WAIT_MS: Final = 500
EMPTY_ANSWERS: Final = 20
"""A quota may leave some answers empty before the end."""
READ_COMMITTED: Final = 1
CONTROL_BYTES: Final = 1 << 10


class TransactionOutcome(Enum):
    """The outcome of a transaction in one partition."""

    COMMITTED = auto()
    ABORTED = auto()
    UNTOUCHED = auto()


async def ends_of(
    client: ClusterClient, topic: str, partitions: int, timeout_s: float
) -> dict[TopicPartition, int]:
    """The current end offsets of the partitions, including open transactions."""
    wanted = [TopicPartition(topic, index) for index in range(partitions)]
    return await _offsets(client, dict.fromkeys(wanted, LATEST), timeout_s)


async def was_committed(
    client: ClusterClient, producer_id: int, starts: Mapping[TopicPartition, int], timeout_s: float
) -> bool:
    """Whether the producer's first transaction after `starts` was committed; it must have ended.

    False for a transaction without records. Raises `ProducerFailed` if the records that show the
    outcome were deleted.
    """
    first = await _offsets(client, dict.fromkeys(starts, EARLIEST), timeout_s)
    end = await _offsets(client, dict.fromkeys(starts, LATEST), timeout_s, read_committed=True)
    for partition, start in starts.items():
        begin = max(start, first[partition])
        found = await _partition_outcome(
            client, producer_id, partition, begin, end[partition], timeout_s
        )
        if found is not TransactionOutcome.UNTOUCHED:
            return found is TransactionOutcome.COMMITTED
    cut = [str(each) for each, start in starts.items() if first[each] > start]
    if cut:
        raise ProducerFailed(
            f"a batch was begun and nothing says how it ended: the group's offsets have expired, "
            f"and {', '.join(cut)} lost its oldest records. Look whether the batch is in the "
            "topic; then run `headrace pipeline reset`"
        )
    return False


async def _partition_outcome(
    client: ClusterClient,
    producer_id: int,
    partition: TopicPartition,
    start: int,
    end: int,
    timeout_s: float,
) -> TransactionOutcome:
    has_written, empty = False, 0
    while start < end:
        data = await _fetch(client, partition, start, timeout_s)
        buffer = memoryview(data.records or b"")
        following = start
        for at, header in headers(buffer, partial_tail=True):
            following = max(following, header.next_offset)
            if header.producer_id != producer_id or header.next_offset <= start:
                continue
            if not header.is_control:
                has_written = True
            elif has_written:
                (record,) = iter_records(buffer[at : at + header.size], max_bytes=CONTROL_BYTES)
                committed = read_control(record).type is ControlType.COMMIT
                return TransactionOutcome.COMMITTED if committed else TransactionOutcome.ABORTED
        empty = empty + 1 if following == start else 0
        if empty == EMPTY_ANSWERS:
            raise ProducerFailed(f"{partition} gives nothing at offset {start} of {end}: try again")
        start = following
    return TransactionOutcome.UNTOUCHED


async def _fetch(
    client: ClusterClient, partition: TopicPartition, offset: int, timeout_s: float
) -> FetchPartitionData:
    wanted = FetchPartition(
        partition=partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
    )
    answer = await client.send(
        FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=partition.topic, partitions=[wanted])],
        ),
        FetchResponse,
        to=ToLeader(*partition),
        timeout_s=timeout_s,
        at_most=FETCH_BY_NAME,
        code_of=lambda got: got.error_code or got.responses[0].partitions[0].error_code,
    )
    data = answer.responses[0].partitions[0]
    if data.error_code:
        raise ProducerFailed(f"{partition} cannot be read at offset {offset}: {data.error_code}")
    return data


async def _offsets(
    client: ClusterClient,
    wanted: Mapping[TopicPartition, int],
    timeout_s: float,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int]:
    found = await list_offsets(client, wanted, timeout_s=timeout_s, read_committed=read_committed)
    offsets = {}
    for partition, answer in found.items():
        if isinstance(answer, Refusal):
            raise ProducerFailed(f"{partition}: {answer}")
        offsets[partition] = answer.offset
    return offsets
