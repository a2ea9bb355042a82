"""DeleteShareGroupState (key 86), version 0: deletes the stored state of share partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.broker.share.share_state_requests import each_topic
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
    done = await each_topic(
        broker.share_state,
        request.group_id,
        request.topics,
        lambda shard, key, _asked, _now_ms: shard.delete(key),
        DeleteShareGroupStatePartitionResult,
    )
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(topic_id=topic_id, partitions=results) for topic_id, results in done
        ]
    )
