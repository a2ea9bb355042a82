"""The stored state of share groups, from the brokers that lead `__share_group_state`.

One request for each group and broker: `ShareGroupStates.summaries` sends one for each partition,
which is too many for a scrape.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.broker.lag.time_slices import TimeSlices
from headrace.broker.share.share_state_persister import ShareStateCoordinator
from headrace.client.errors import ClientError
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.group.share.state_topics import Partitions
from headrace.coordinator.share_state.share_state_shard import (
    NO_EPOCH,
    ShareStateShard,
    StateSummary,
)
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryPartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryData,
)

if TYPE_CHECKING:
    from headrace.broker.membership.peers import Peers

Summaries = dict[SharePartitionKey, StateSummary]


class ShareSummariesHost(Protocol):
    """The part of the broker that knows the coordinators of share state."""

    @property
    def share_state(self) -> ShareStateCoordinator: ...

    @property
    def peers(self) -> Peers | None: ...


async def read_summaries(
    host: ShareSummariesHost,
    groups: Iterable[tuple[str, Partitions]],
    slices: TimeSlices,
    *,
    channel: str,
    timeout_s: float,
) -> Summaries:
    """The summaries of all partitions of the groups that can be read now."""
    summaries: Summaries = {}
    remote: dict[tuple[int, str], list[SharePartitionKey]] = {}
    for group_id, partitions in groups:
        for topic_id, indexes in partitions.items():
            for index in indexes:
                key = SharePartitionKey(group_id, topic_id, index)
                leader = host.share_state.remote_leader_of(key.coordinator_key)
                if leader is not None:
                    remote.setdefault((leader, group_id), []).append(key)
                    continue
                try:
                    summaries[key] = await host.share_state.run(
                        key.coordinator_key, partial(_summary, key)
                    )
                except CoordinatorError:
                    continue  # the shard is loading or moving
                if slices.is_over:
                    await slices.rest()
    answers = await asyncio.gather(
        *(
            _ask(host.peers, leader, group_id, keys, channel, timeout_s)
            for (leader, group_id), keys in remote.items()
        )
    )
    for answer in answers:
        summaries.update(answer)
    return summaries


def _summary(
    key: SharePartitionKey, shard: ShareStateShard, _now_ms: int
) -> CoordinatorResult[StateSummary]:
    return shard.summary(key)


async def _ask(
    peers: Peers | None,
    leader: int,
    group_id: str,
    keys: list[SharePartitionKey],
    channel: str,
    timeout_s: float,
) -> Mapping[SharePartitionKey, StateSummary]:
    topics: dict[bytes, list[ReadShareGroupStateSummaryPartitionData]] = {}
    for key in keys:
        topics.setdefault(key.topic_id, []).append(
            ReadShareGroupStateSummaryPartitionData(partition=key.partition, leader_epoch=NO_EPOCH)
        )
    request = ReadShareGroupStateSummaryRequest(
        group_id=group_id,
        topics=[
            ReadStateSummaryData(topic_id=id_, partitions=each) for id_, each in topics.items()
        ],
    )
    assert peers is not None  # another broker leads the shard's partition
    try:
        response = await peers.request(
            leader,
            request,
            ReadShareGroupStateSummaryResponse,
            timeout_s=timeout_s,
            channel=channel,
        )
    except ClientError:
        return {}
    return {
        SharePartitionKey(group_id, bytes(topic.topic_id), each.partition): StateSummary(
            each.state_epoch,
            each.leader_epoch,
            each.start_offset,
            each.delivery_complete_count,
            each.first_unfinished,
        )
        for topic in response.results
        for each in topic.partitions
        if not each.error_code
    }
