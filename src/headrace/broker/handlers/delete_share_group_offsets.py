"""DeleteShareGroupOffsets (key 92), version 0: deletes topics' offsets of an empty share group."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(
    broker: Broker, check: RequestCheck, request: DeleteShareGroupOffsetsRequest
) -> Verdict:
    return check.require(
        AclOperation.DELETE, AclResourceType.GROUP, request.group_id
    ) or check.filter_topics(AclOperation.READ, attrgetter("topic_name"), group_errors_first=True)


async def handle(
    broker: Broker, context: Context, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    if not request.group_id:
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    names = [topic.topic_name for topic in request.topics]
    try:
        begun, errors = await broker.coordinators.share_group_states.delete_topics(
            request.group_id, names
        )
    except CoordinatorError as error:
        return DeleteShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.message or None
        )
    responses = [
        DeleteShareGroupOffsetsResponseTopic(
            topic_name=name,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=reason,
        )
        for name, reason in begun.errors.items()
    ]
    for topic_id, name in begun.names.items():
        deleted = DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id)
        failed = errors.get(topic_id)
        if failed is not None:
            deleted.error_code, deleted.error_message = failed.code, str(failed)
        responses.append(deleted)
    return DeleteShareGroupOffsetsResponse(responses=responses)
