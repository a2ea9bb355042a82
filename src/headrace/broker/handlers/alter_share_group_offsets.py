"""AlterShareGroupOffsets (key 91), version 0: sets start offsets of an empty share group."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.share.start_offsets import NOT_HOSTED, StartOffset
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from headrace.protocol.types import ZERO_UUID
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(
    broker: Broker, check: RequestCheck, request: AlterShareGroupOffsetsRequest
) -> Verdict:
    return check.require(
        AclOperation.READ, AclResourceType.GROUP, request.group_id
    ) or check.filter_topics(AclOperation.READ, attrgetter("topic_name"), group_errors_first=True)


async def handle(
    broker: Broker, context: Context, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    if not request.group_id:
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    wanted = [
        StartOffset(topic.topic_name, partition.partition_index, partition.start_offset)
        for topic in request.topics
        for partition in topic.partitions
    ]
    try:
        accepted, errors = await broker.coordinators.share_group_states.alter(
            request.group_id, wanted
        )
    except CoordinatorError as error:
        return AlterShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.message or None
        )
    ids = {topic.name: topic_id for topic_id, topic in accepted.topics.items()}
    codes = {(key.topic_id, key.partition): error.code for key, error in errors.items()}
    return AlterShareGroupOffsetsResponse(
        responses=[
            _topic_response(topic, ids, set(accepted.accepted), codes) for topic in request.topics
        ]
    )


def _topic_response(
    topic: AlterShareGroupOffsetsRequestTopic,
    ids: dict[str, bytes],
    accepted: set[StartOffset],
    codes: dict[tuple[bytes, int], ErrorCode],
) -> AlterShareGroupOffsetsResponseTopic:
    topic_id = ids.get(topic.topic_name, ZERO_UUID)
    partitions = []
    for asked in topic.partitions:
        wanted = StartOffset(topic.topic_name, asked.partition_index, asked.start_offset)
        code = codes.get((topic_id, asked.partition_index), ErrorCode.NONE)
        message = code.name if code else None
        if wanted not in accepted:
            code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED
        partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=asked.partition_index,
                error_code=code,
                error_message=message,
            )
        )
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, topic_id=topic_id, partitions=partitions
    )
