"""OffsetCommit (key 8), versions 2-10: stores where a group goes on reading.

Up to v4 a commit can bring its own retention time, v6 adds leader epochs, v7 static members, v9
serves members of consumer groups (KIP-848), v10 names topics by id.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.dispatch import Context
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: OffsetCommitRequest
) -> OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]:
    version = context.version
    return broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.offsets.commit(version, request, now_ms),
        lambda error: _refused(request, error),
    )


def _refused(request: OffsetCommitRequest, error: CoordinatorError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error.code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
