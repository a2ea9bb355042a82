"""InitializeShareGroupState (key 83), version 0: initializes the state of share partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.broker.share.share_state_requests import each_topic
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
    done = await each_topic(
        broker.share_state,
        request.group_id,
        request.topics,
        lambda shard, key, asked, now_ms: shard.initialize(
            key, asked.state_epoch, asked.start_offset, now_ms
        ),
        InitializeShareGroupStatePartitionResult,
    )
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(topic_id=topic_id, partitions=results)
            for topic_id, results in done
        ]
    )
