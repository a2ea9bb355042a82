"""ReadShareGroupState (key 84), version 0: the stored state of share partitions.

The leader that reads fences the leaders before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.dispatch import Context
from headrace.broker.share_state_requests import each_partition
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.messages.read_share_group_state import (
    ReadShareGroupStatePartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateStateBatch,
    ReadStateResult,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker
    from headrace.share_state.shard import ReadState


async def handle(
    broker: Broker, context: Context, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    if not request.group_id:
        return ReadShareGroupStateResponse()
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    _result(asked.partition, outcome)
                    for asked, outcome in await each_partition(
                        broker,
                        request.group_id,
                        topic.topic_id,
                        topic.partitions,
                        lambda shard, key, asked, now_ms: shard.read(
                            key, asked.leader_epoch, now_ms
                        ),
                    )
                ],
            )
            for topic in request.topics
        ]
    )


def _result(
    index: int, outcome: ReadState | CoordinatorError
) -> ReadShareGroupStatePartitionResult:
    if isinstance(outcome, CoordinatorError):
        return ReadShareGroupStatePartitionResult(
            partition=index, error_code=outcome.code, error_message=str(outcome)
        )
    return ReadShareGroupStatePartitionResult(
        partition=index,
        state_epoch=outcome.state_epoch,
        start_offset=outcome.start_offset,
        state_batches=[
            ReadShareGroupStateStateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.deliveries,
            )
            for batch in outcome.batches
        ],
    )
