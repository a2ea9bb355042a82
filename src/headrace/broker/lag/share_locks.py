"""The locks of share partitions, from their leaders: this broker or other ones.

Other brokers are asked at the same time, like in `leader_states`. A leader that does not answer in
time leaves the locks of its partitions unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.lag.leader_states import CHANNEL, REQUEST_TIMEOUT_S
from headrace.broker.lag.time_slices import TimeSlices
from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.broker.share.lock_fields import MAX_LOCKS_PER_PARTITION, locks_in, request_of
from headrace.client.errors import ClientError
from headrace.clock import Clock
from headrace.cluster.topology import NO_LEADER
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
)
from headrace.share.in_flight import InFlightRecords

if TYPE_CHECKING:
    from headrace.broker.membership.peers import Peers
    from headrace.broker.share.share_partition_manager import SharePartitionManager

PARTITIONS_PER_REQUEST: Final = 1000

Held = dict[SharePartitionKey, InFlightRecords]


class ShareLocksHost(Protocol):
    """The part of the broker that knows leaders and leads share partitions."""

    node_id: int
    metadata: Metadata
    clock: Clock

    @property
    def shares(self) -> SharePartitionManager: ...

    @property
    def peers(self) -> Peers | None: ...


async def read_locks(
    host: ShareLocksHost, group_id: str, keys: Iterable[SharePartitionKey]
) -> Held:
    """What is in flight in these partitions, as far as their leaders answer."""
    topics = host.metadata.image.topics_by_id
    here: list[SharePartitionKey] = []
    elsewhere: dict[int, list[SharePartitionKey]] = {}
    for key in keys:
        topic = topics.get(key.topic_id)
        partition = topic.partition(key.partition) if topic is not None else None
        if partition is None or partition.leader == NO_LEADER:
            continue
        if partition.leader == host.node_id:
            here.append(key)
        else:
            elsewhere.setdefault(partition.leader, []).append(key)
    held, *answers = await asyncio.gather(
        read_local_locks(host, here),
        *(
            _ask(host, broker_id, group_id, part)
            for broker_id, asked in elsewhere.items()
            for part in _parts(asked)
        ),
    )
    for answer in answers:
        held.update(answer)
    return held


def _parts(keys: Sequence[SharePartitionKey]) -> Iterator[Sequence[SharePartitionKey]]:
    """One part for each request."""
    for first in range(0, len(keys), PARTITIONS_PER_REQUEST):
        yield keys[first : first + PARTITIONS_PER_REQUEST]


async def read_local_locks(host: ShareLocksHost, keys: Iterable[SharePartitionKey]) -> Held:
    """What is in flight in the partitions that this broker leads."""
    slices = TimeSlices(host.clock)
    held: Held = {}
    for key in keys:
        found = host.shares.in_flight(key, MAX_LOCKS_PER_PARTITION)
        if found is not None:
            held[key] = found
        if slices.is_over:
            await slices.rest()
    return held


async def _ask(
    host: ShareLocksHost, broker_id: int, group_id: str, keys: Iterable[SharePartitionKey]
) -> Held:
    topics = host.metadata.image.topics_by_id
    known = [key for key in keys if key.topic_id in topics]
    if host.peers is None:
        return {}
    try:
        response = await host.peers.request(
            broker_id,
            request_of(group_id, known, lambda topic_id: topics[topic_id].name),
            DescribeShareGroupOffsetsResponse,
            timeout_s=REQUEST_TIMEOUT_S,
            channel=CHANNEL,
        )
    except ClientError:
        return {}
    return dict(locks_in(response))
