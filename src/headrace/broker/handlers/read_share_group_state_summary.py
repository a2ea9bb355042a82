"""ReadShareGroupStateSummary (key 87), versions 0-1: where share partitions start.

v1 adds the count of records whose delivery is complete (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.dispatch import Context
from headrace.broker.share_state_requests import each_partition
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryPartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker
    from headrace.share_state.shard import StateSummary


async def handle(
    broker: Broker, context: Context, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    if not request.group_id:
        return ReadShareGroupStateSummaryResponse()
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(
                topic_id=topic.topic_id,
                partitions=[
                    _result(asked.partition, outcome)
                    for asked, outcome in await each_partition(
                        broker,
                        request.group_id,
                        topic.topic_id,
                        topic.partitions,
                        lambda shard, key, _asked, _now_ms: shard.summary(key),
                    )
                ],
            )
            for topic in request.topics
        ]
    )


def _result(
    index: int, outcome: StateSummary | CoordinatorError
) -> ReadShareGroupStateSummaryPartitionResult:
    if isinstance(outcome, CoordinatorError):
        return ReadShareGroupStateSummaryPartitionResult(
            partition=index, error_code=outcome.code, error_message=str(outcome)
        )
    return ReadShareGroupStateSummaryPartitionResult(
        partition=index,
        state_epoch=outcome.state_epoch,
        leader_epoch=outcome.leader_epoch,
        start_offset=outcome.start_offset,
        delivery_complete_count=outcome.complete_count,
    )
