"""ConsumerGroupDescribe (key 69), versions 0-1: consumer groups (KIP-848) and their members.

v1 tells whether a member still speaks the classic protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.dispatch import Context
from headrace.broker.handlers.operations import GROUP_OPERATIONS
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    groups = [_describe(broker, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(broker: Broker, group_id: str) -> ConsumerGroupDescribeDescribedGroup:
    try:
        if not broker.coordinators.serves_consumer_groups:
            raise CoordinatorError(ErrorCode.UNSUPPORTED_VERSION)
        if not group_id:
            raise CoordinatorError(ErrorCode.INVALID_GROUP_ID)
        return broker.groups.read(group_id, lambda shard, _: shard.consumer.describe(group_id))
    except CoordinatorError as error:
        return ConsumerGroupDescribeDescribedGroup(
            group_id=group_id, error_code=error.code, error_message=error.message or None
        )
