"""ShareGroupDescribe (key 77), version 1: describes share groups (KIP-932) and their members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.broker.coordinators.group_descriptions import (
    add_authorized_operations,
    describe_each,
    refuse_undescribable,
)
from headrace.broker.network.dispatch import Context
from headrace.protocol.messages.share_group_describe import (
    ShareGroupDescribeDescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(broker: Broker, check: RequestCheck, request: ShareGroupDescribeRequest) -> Verdict:
    def hide_members(response: ShareGroupDescribeResponse) -> None:
        refuse_undescribable(check, response.groups, _assigned_topics)

    denied = check.filter_names("group_ids", AclOperation.DESCRIBE, AclResourceType.GROUP)
    return check.and_change(denied, hide_members)


def _assigned_topics(group: ShareGroupDescribeDescribedGroup) -> Iterator[str]:
    return (
        assigned.topic_name
        for member in group.members
        for assigned in member.assignment.topic_partitions
    )


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
        add_authorized_operations(broker.access, context.session, groups)
    return ShareGroupDescribeResponse(groups=groups)
