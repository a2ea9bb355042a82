"""The lag of groups in records and in seconds.

The request is ListOffsets with Headrace's own tagged fields. A broker that does not know them, such
as Apache Kafka, answers with the end of the partition only: the lag in records is then the distance
of the offsets, and the lag in seconds is unknown.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.admin.offsets import LATEST, NO_OFFSET
from headrace.client.client import ClusterClient, ToBroker
from headrace.client.leader_requests import PATIENCE_S, Answers, send_to_leaders
from headrace.client.results import Refusal, TopicPartition, group_by_topic, refused
from headrace.protocol.messages.list_offsets import (
    ConsumerPosition,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_CONSUMER: Final = -1  # the replica id of a client that is not a replica


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """The lag of one position."""

    records: int
    seconds: float | None
    """None if the broker does not say, or the next record has no timestamp."""


@dataclass(frozen=True, slots=True)
class PartitionLags:
    """The end of a partition, and the lag of each position in it."""

    end: int
    lags: Mapping[int, ConsumerLag]


async def partition_lags(
    client: ClusterClient,
    positions: Mapping[TopicPartition, Collection[int]],
    now_ms: int,
    *,
    timeout_s: float,
    patience_s: float = PATIENCE_S,
    partial: bool = False,
) -> dict[TopicPartition, PartitionLags | Refusal]:
    """The lag of each position, by partition.

    If `partial`, the partitions of an unreachable leader get a refusal; else it raises.
    """
    wanted = {each: sorted(set(offsets)) for each, offsets in positions.items()}

    async def send(leader: int, partitions: Sequence[TopicPartition]) -> Answers[PartitionLags]:
        topics = group_by_topic(
            partitions,
            lambda each: ListOffsetsPartition(
                partition_index=each.partition,
                timestamp=LATEST,
                positions=[
                    ConsumerPosition(offset=offset, skip_aborted=True) for offset in wanted[each]
                ],
            ),
        )
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
            timeout_ms=int(timeout_s * 1000),
        )
        answer = await client.send(
            request, ListOffsetsResponse, to=ToBroker(leader), timeout_s=timeout_s, retry=False
        )
        lags: Answers[PartitionLags] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                lags[partition] = (
                    refused(each.error_code)
                    if each.error_code
                    else _lags_in(each, wanted[partition], now_ms)
                )
        return lags

    return await send_to_leaders(
        client, list(wanted), send, timeout_s=timeout_s, patience_s=patience_s, partial=partial
    )


def _lags_in(
    answer: ListOffsetsPartitionResponse, offsets: Sequence[int], now_ms: int
) -> PartitionLags:
    if len(answer.next_records) != len(offsets):
        distances = {each: max(0, answer.offset - each) for each in offsets}
        return PartitionLags(
            answer.offset,
            {
                each: ConsumerLag(distance, None if distance else 0.0)
                for each, distance in distances.items()
            },
        )
    lags = {}
    for offset, record in zip(offsets, answer.next_records, strict=True):
        if record.offset == NO_OFFSET:
            lags[offset] = ConsumerLag(0, 0.0)
            continue
        seconds = None if record.timestamp < 0 else max(0, now_ms - record.timestamp) / 1000
        lags[offset] = ConsumerLag(max(0, answer.high_watermark - record.offset), seconds)
    return PartitionLags(answer.high_watermark, lags)
