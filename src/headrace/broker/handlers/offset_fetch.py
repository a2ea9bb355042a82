"""OffsetFetch (key 9), versions 1-10: reads the committed offsets of groups.

* v2: null asks for all topics; a group-level error code.
* v7: `require_stable` for transactional offsets.
* v8: many groups in one request.
* v9: member id and epoch of the caller (KIP-848).
* v10: topics by id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Final

from headrace.broker.network.dispatch import Context, resolve_reply
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import CoordinatorResult
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from headrace.protocol.types import ZERO_UUID
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.node import Broker

FIRST_VERSION_WITH_GROUP_ERRORS: Final = 2
FIRST_VERSION_WITH_MANY_GROUPS: Final = 8

_PendingGroup = OffsetFetchResponseGroup | asyncio.Future[OffsetFetchResponseGroup]


def handle(
    broker: Broker, context: Context, request: OffsetFetchRequest
) -> OffsetFetchResponse | Coroutine[object, object, OffsetFetchResponse]:
    many = context.version >= FIRST_VERSION_WITH_MANY_GROUPS
    asked = request.groups if many else [_only_group(request)]
    answers = [_fetch_group(broker, context, group, request.require_stable) for group in asked]
    ready = [answer for answer in answers if isinstance(answer, OffsetFetchResponseGroup)]
    if len(ready) == len(answers):
        return _offset_fetch_response(context.version, ready)
    return _respond_when_read(context.version, answers)


def _fetch_group(
    broker: Broker, context: Context, group: OffsetFetchRequestGroup, stable: bool
) -> _PendingGroup:
    access = broker.access
    if not access.is_enforced:
        return _read_offsets(broker, context.version, group, stable)
    if not access.allows(
        context.session, AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id
    ):
        error = CoordinatorError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return _failed_group(context.version, group, error)
    return _fetch_describable(broker, context, group, stable)


def _fetch_describable(
    broker: Broker, context: Context, group: OffsetFetchRequestGroup, stable: bool
) -> _PendingGroup:
    """The offsets of the topics that the sender may describe."""
    from headrace.broker.access.request_check import add_to_reply

    access, session, metadata = broker.access, context.session, broker.metadata

    def may_describe(topic: OffsetFetchRequestTopics | OffsetFetchResponseTopics) -> bool:
        known = metadata.image.topics_by_id.get(topic.topic_id)
        if known is None and topic.topic_id != ZERO_UUID:
            return True  # an unknown id, which the coordinator reports
        name = topic.name if known is None else known.name
        return access.shows(session, AclOperation.DESCRIBE, AclResourceType.TOPIC, name)

    allowed: list[OffsetFetchRequestTopics] = []
    denied: list[OffsetFetchRequestTopics] = []
    for topic in group.topics or ():
        (allowed if may_describe(topic) else denied).append(topic)
    if denied:
        group.topics = allowed

    def hide_or_add(response: OffsetFetchResponseGroup) -> None:
        # Again for topics that were asked for by id, and have become known meanwhile.
        response.topics = [topic for topic in response.topics if may_describe(topic)]
        if not response.error_code:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response.topics = [*response.topics, *(_failed_topic(topic, code) for topic in denied)]

    reply = _read_offsets(broker, context.version, group, stable)
    answer: _PendingGroup = add_to_reply(reply, hide_or_add)
    return answer


def _read_offsets(
    broker: Broker, version: int, group: OffsetFetchRequestGroup, stable: bool
) -> _PendingGroup:
    """Reads as a coordinator operation without records: pending commits are not visible to it."""
    return broker.groups.answer(
        group.group_id,
        lambda shard, _: CoordinatorResult(shard.offsets.fetch(version, group, stable=stable)),
        lambda error: _failed_group(version, group, error),
    )


async def _respond_when_read(version: int, answers: Sequence[_PendingGroup]) -> OffsetFetchResponse:
    return _offset_fetch_response(version, [await resolve_reply(answer) for answer in answers])


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )


def _failed_group(
    version: int, group: OffsetFetchRequestGroup, error: CoordinatorError
) -> OffsetFetchResponseGroup:
    """v1 has no error code for a group: each partition carries the error instead."""
    topics = group.topics or [] if version < FIRST_VERSION_WITH_GROUP_ERRORS else []
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        error_code=error.code,
        topics=[_failed_topic(topic, error.code) for topic in topics],
    )


def _failed_topic(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, error_code=code
            )
            for index in topic.partition_indexes
        ],
    )


def _offset_fetch_response(
    version: int, groups: list[OffsetFetchResponseGroup]
) -> OffsetFetchResponse:
    if version >= FIRST_VERSION_WITH_MANY_GROUPS:
        return OffsetFetchResponse(groups=groups)
    group = groups[0]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
