"""ShareGroupDescribe (key 77), version 1: describes share groups (KIP-932) and their members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.coordinators.group_descriptions import add_authorized_operations, describe_each
from headrace.broker.network.dispatch import Context
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
    groups = describe_each(
        broker.groups,
        request.group_ids,
        lambda shard, group_id, now_ms: shard.share.describe(group_id, now_ms),
        ShareGroupDescribeDescribedGroup,
        served=broker.coordinators.serves_share_groups,
    )
    if request.include_authorized_operations:
        add_authorized_operations(groups)
    return ShareGroupDescribeResponse(groups=groups)
