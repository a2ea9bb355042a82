"""DeleteShareGroupState (key 86), version 0: forgets the stored state of share partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.dispatch import Context
from headrace.broker.share_state_requests import each_partition
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStatePartitionResult,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


async def handle(
    broker: Broker, context: Context, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    if not request.group_id:
        return DeleteShareGroupStateResponse()
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    _result(asked.partition, outcome)
                    for asked, outcome in await each_partition(
                        broker,
                        request.group_id,
                        topic.topic_id,
                        topic.partitions,
                        lambda shard, key, _asked, _now_ms: shard.delete(key),
                    )
                ],
            )
            for topic in request.topics
        ]
    )


def _result(index: int, outcome: bool | CoordinatorError) -> DeleteShareGroupStatePartitionResult:
    result = DeleteShareGroupStatePartitionResult(partition=index)
    if isinstance(outcome, CoordinatorError):
        result.error_code, result.error_message = outcome.code, str(outcome)
    return result
