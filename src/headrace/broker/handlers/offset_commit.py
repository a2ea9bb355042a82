"""OffsetCommit (key 8), versions 2-10: commits the offsets of a group.

* v2-v4: retention time per request.
* v6: leader epochs.
* v7: static members.
* v9: members of consumer groups (KIP-848).
* v10: topics by id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headrace.broker.coordinators.commit_fast_path import NO_FAST_PATH, CommitFastPath
from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.security.authorization.acl import Acl, AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_TOPIC_IDS: Final = 10


def authorize(broker: Broker, check: RequestCheck, request: OffsetCommitRequest) -> Verdict:
    refused = check.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    if refused is not None or check.version < FIRST_VERSION_WITH_TOPIC_IDS:
        return refused or check.filter_topics(AclOperation.READ)
    by_id = broker.metadata.image.topics_by_id

    def name_of(asked: OffsetCommitRequestTopic) -> str | None:
        topic = by_id.get(asked.topic_id)
        return None if topic is None else topic.name

    return check.filter_topics(AclOperation.READ, name_of)


def handle(
    broker: Broker, context: Context, request: OffsetCommitRequest
) -> OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]:
    version = context.version
    acls = broker.metadata.image.acls
    answer = broker.groups.answer(
        request.group_id,
        lambda shard, now_ms: shard.offsets.commit(version, request, now_ms),
        lambda error: _error_response(request, error),
    )
    if isinstance(answer, asyncio.Future):
        answer.add_done_callback(
            lambda done: _register_fast_path_when_done(broker, context, request, done, acls)
        )
    else:
        _register_fast_path(broker, context, request, answer)
    return answer


def _register_fast_path_when_done(
    broker: Broker,
    context: Context,
    request: OffsetCommitRequest,
    done: asyncio.Future[OffsetCommitResponse],
    acls: Mapping[Acl, None],
) -> None:
    # ACLs that changed meanwhile may no longer allow the next commit.
    if not done.cancelled() and acls is broker.metadata.image.acls:
        _register_fast_path(broker, context, request, done.result())


def _register_fast_path(
    broker: Broker, context: Context, request: OffsetCommitRequest, answer: OffsetCommitResponse
) -> None:
    """Registers a fast path for commits that differ from this one only in the offset.

    A connection that left its fast path unused does not get another one.
    """
    connection = context.connection
    current = connection.fast_path
    if current is NO_FAST_PATH or len(request.topics) != 1:
        return
    if isinstance(current, CommitFastPath) and not current.was_used:
        connection.register_fast_path(NO_FAST_PATH)
        return
    connection.register_fast_path(CommitFastPath.from_commit(broker, context, request, answer))


def _error_response(request: OffsetCommitRequest, error: CoordinatorError) -> OffsetCommitResponse:
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
