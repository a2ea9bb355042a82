"""ReadShareGroupStateSummary (key 87), versions 0-1: reads start offsets of share partitions.

* v1: the number of records whose delivery is complete (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.broker.share.share_state_requests import each_topic
from headrace.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryPartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker
    from headrace.coordinator.share_state.share_state_shard import StateSummary


async def handle(
    broker: Broker, context: Context, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    done = await each_topic(
        broker.share_state,
        request.group_id,
        request.topics,
        lambda shard, key, _asked, _now_ms: shard.summary(key),
        ReadShareGroupStateSummaryPartitionResult,
        _fill_summary,
    )
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(topic_id=topic_id, partitions=results)
            for topic_id, results in done
        ]
    )


def _fill_summary(result: ReadShareGroupStateSummaryPartitionResult, summary: StateSummary) -> None:
    result.state_epoch = summary.state_epoch
    result.leader_epoch = summary.leader_epoch
    result.start_offset = summary.start_offset
    result.delivery_complete_count = summary.complete_count
    result.first_unfinished = summary.first_unfinished
