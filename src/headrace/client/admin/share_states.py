"""The stored delivery states of share partitions (KIP-932): what was delivered, and how often.

Locks are not stored: only the leader of a partition knows which records are acquired now
(`share_locks`). The request needs CLUSTER_ACTION on the cluster.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.client.client import ClusterClient
from headrace.client.coordinators import CoordinatorKind, CoordinatorNode
from headrace.client.results import Refusal, TopicPartition, moved, refused
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.read_share_group_state import (
    ReadShareGroupStatePartitionData,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateData,
)
from headrace.protocol.types import encode_uuid

READ_ONLY_EPOCH: Final = -1
"""A read with another leader epoch fences the leader."""


class DeliveryState(IntEnum):
    """Kafka's stored states of records; an acquired record is stored as available."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> "DeliveryState":
        return cls(number) if number in set(cls) else cls.UNKNOWN


class DeliveredRange(NamedTuple):
    """Consecutive records with the same state and the same number of deliveries."""

    first: int
    last: int
    state: DeliveryState
    deliveries: int

    @property
    def records(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class ShareState:
    """A share partition's stored state: everything before the start offset is finished."""

    start_offset: int
    ranges: tuple[DeliveredRange, ...]

    @property
    def most_deliveries(self) -> int:
        return max((each.deliveries for each in self.ranges), default=0)


async def read_share_states(
    client: ClusterClient, group: str, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> dict[TopicPartition, ShareState | Refusal]:
    """The stored state of each partition. The topics must be in the client's metadata."""
    found = await asyncio.gather(
        *(_read_share_state(client, group, each, timeout_s) for each in partitions)
    )
    return dict(zip(partitions, found, strict=True))


async def _read_share_state(
    client: ClusterClient, group: str, partition: TopicPartition, timeout_s: float
) -> ShareState | Refusal:
    topic = client.metadata.topic(partition.topic)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition.topic} does not exist")
    key = f"{group}:{encode_uuid(topic.topic_id)}:{partition.partition}"
    answer = await client.send(
        ReadShareGroupStateRequest(
            group_id=group,
            topics=[
                ReadStateData(
                    topic_id=topic.topic_id,
                    partitions=[
                        ReadShareGroupStatePartitionData(
                            partition=partition.partition, leader_epoch=READ_ONLY_EPOCH
                        )
                    ],
                )
            ],
        ),
        ReadShareGroupStateResponse,
        to=CoordinatorNode(key, CoordinatorKind.SHARE),
        timeout_s=timeout_s,
        code_of=lambda got: moved(
            each.error_code for result in got.results for each in result.partitions
        ),
    )
    for result in answer.results:
        for each in result.partitions:
            if each.error_code:
                return refused(each.error_code, each.error_message)
            return ShareState(
                each.start_offset,
                tuple(
                    DeliveredRange(
                        one.first_offset,
                        one.last_offset,
                        DeliveryState.of(one.delivery_state),
                        one.delivery_count,
                    )
                    for one in each.state_batches
                ),
            )
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "the coordinator returned no state")
