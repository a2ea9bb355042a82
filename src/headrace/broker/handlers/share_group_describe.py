"""ShareGroupDescribe (key 77), version 1: share groups (KIP-932) and their members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.dispatch import Context
from headrace.broker.handlers.operations import GROUP_OPERATIONS
from headrace.coordinator.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.share_group_describe import (
    ShareGroupDescribeDescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    groups = [_describe(broker, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ShareGroupDescribeResponse(groups=groups)


def _describe(broker: Broker, group_id: str) -> ShareGroupDescribeDescribedGroup:
    try:
        if not broker.coordinators.serves_share_groups:
            raise CoordinatorError(ErrorCode.UNSUPPORTED_VERSION)
        if not group_id:
            raise CoordinatorError(ErrorCode.INVALID_GROUP_ID)
        return broker.groups.read(
            group_id, lambda shard, now_ms: shard.share.describe(group_id, now_ms)
        )
    except CoordinatorError as error:
        return ShareGroupDescribeDescribedGroup(
            group_id=group_id, error_code=error.code, error_message=error.message or None
        )
