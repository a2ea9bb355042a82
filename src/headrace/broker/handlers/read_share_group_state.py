"""ReadShareGroupState (key 84), version 0: reads the stored state of share partitions.

A read by a leader fences leaders of earlier epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.broker.share.share_state_requests import each_topic
from headrace.protocol.messages.read_share_group_state import (
    ReadShareGroupStatePartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateStateBatch,
    ReadStateResult,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker
    from headrace.coordinator.share_state.share_state_shard import ReadState


async def handle(
    broker: Broker, context: Context, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    done = await each_topic(
        broker.share_state,
        request.group_id,
        request.topics,
        lambda shard, key, asked, now_ms: shard.read(key, asked.leader_epoch, now_ms),
        ReadShareGroupStatePartitionResult,
        _fill_state,
    )
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(topic_id=topic_id, partitions=results) for topic_id, results in done
        ]
    )


def _fill_state(result: ReadShareGroupStatePartitionResult, state: ReadState) -> None:
    result.state_epoch = state.state_epoch
    result.start_offset = state.start_offset
    result.state_batches = [
        ReadShareGroupStateStateBatch(
            first_offset=batch.first,
            last_offset=batch.last,
            delivery_state=batch.state,
            delivery_count=batch.deliveries,
        )
        for batch in state.batches
    ]
