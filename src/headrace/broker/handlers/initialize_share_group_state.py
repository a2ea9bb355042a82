"""InitializeShareGroupState (key 83), version 0: starts the stored state of share partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.dispatch import Context
from headrace.broker.share_state_requests import each_partition
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStatePartitionResult,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


async def handle(
    broker: Broker, context: Context, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    if not request.group_id:
        return InitializeShareGroupStateResponse()
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    _result(asked.partition, outcome)
                    for asked, outcome in await each_partition(
                        broker,
                        request.group_id,
                        topic.topic_id,
                        topic.partitions,
                        lambda shard, key, asked, now_ms: shard.initialize(
                            key, asked.state_epoch, asked.start_offset, now_ms
                        ),
                    )
                ],
            )
            for topic in request.topics
        ]
    )


def _result(
    index: int, outcome: bool | CoordinatorError
) -> InitializeShareGroupStatePartitionResult:
    result = InitializeShareGroupStatePartitionResult(partition=index)
    if isinstance(outcome, CoordinatorError):
        result.error_code, result.error_message = outcome.code, str(outcome)
    return result
