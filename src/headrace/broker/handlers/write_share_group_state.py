"""WriteShareGroupState (key 85), versions 0-1: stores the state of share partitions.

* v1: the number of records whose delivery is complete (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.broker.share.share_state_requests import each_topic
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.share_state.share_state_shard import ShareStateShard, StateChange
from headrace.coordinator.share_state.stored_state import SharePartitionKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.write_share_group_state import (
    WriteShareGroupStatePartitionData,
    WriteShareGroupStatePartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from headrace.share.record_state import RecordState, StateBatch

if TYPE_CHECKING:
    from headrace.broker.node import Broker


async def handle(
    broker: Broker, context: Context, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    done = await each_topic(
        broker.share_state,
        request.group_id,
        request.topics,
        _write_state,
        WriteShareGroupStatePartitionResult,
    )
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(topic_id=topic_id, partitions=results) for topic_id, results in done
        ]
    )


def _write_state(
    shard: ShareStateShard,
    key: SharePartitionKey,
    asked: WriteShareGroupStatePartitionData,
    now_ms: int,
) -> CoordinatorResult[bool]:
    try:
        batches = [
            StateBatch(
                batch.first_offset,
                batch.last_offset,
                RecordState(batch.delivery_state),
                batch.delivery_count,
            )
            for batch in asked.state_batches
        ]
    except ValueError as error:
        raise CoordinatorError(ErrorCode.INVALID_REQUEST, str(error)) from error
    change = StateChange(
        asked.state_epoch,
        asked.leader_epoch,
        asked.start_offset,
        asked.delivery_complete_count,
        batches,
    )
    return shard.write(key, change, now_ms)
