"""OffsetCommit (key 8), versions 2-10: stores where a group goes on reading.

Up to v4 a commit can bring its own retention time, v6 adds leader epochs, v7 static members, v9
serves members of consumer groups (KIP-848), v10 names topics by id.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.coordinators.commit_fast_path import NEVER_AGAIN, CommitFastPath
from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
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
    answer = broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.offsets.commit(version, request, now_ms),
        lambda error: _refused(request, error),
    )
    if isinstance(answer, asyncio.Future):
        answer.add_done_callback(lambda done: _remember_later(broker, context, request, done))
    else:
        _remember(broker, context, request, answer)
    return answer


def _remember_later(
    broker: Broker,
    context: Context,
    request: OffsetCommitRequest,
    done: asyncio.Future[OffsetCommitResponse],
) -> None:
    if not done.cancelled():
        _remember(broker, context, request, done.result())


def _remember(
    broker: Broker, context: Context, request: OffsetCommitRequest, answer: OffsetCommitResponse
) -> None:
    """Keeps what may come again. On a connection where it did not come again, not any more."""
    connection = context.connection
    if connection.remembered is NEVER_AGAIN or len(request.topics) != 1:
        return
    if connection.remembered is not None and not connection.remembered.was_of_use:
        connection.remembered = NEVER_AGAIN
        return
    connection.remembered = CommitFastPath.of(broker, context, request, answer)


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
