"""ConsumerGroupDescribe (key 69), versions 0-1: describes consumer groups (KIP-848).

* v1: the member type; a member may still use the classic protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.broker.coordinators.group_descriptions import (
    add_authorized_operations,
    describe_each,
    refuse_undescribable,
)
from headrace.broker.network.dispatch import Context
from headrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict
    from headrace.broker.node import Broker


def authorize(
    broker: Broker, check: RequestCheck, request: ConsumerGroupDescribeRequest
) -> Verdict:
    def hide_members(response: ConsumerGroupDescribeResponse) -> None:
        refuse_undescribable(check, response.groups, _assigned_topics)

    denied = check.filter_names("group_ids", AclOperation.DESCRIBE, AclResourceType.GROUP)
    return check.and_change(denied, hide_members)


def _assigned_topics(group: ConsumerGroupDescribeDescribedGroup) -> Iterator[str]:
    return (
        assigned.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for assigned in assignment.topic_partitions
    )


def handle(
    broker: Broker, context: Context, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    groups = describe_each(
        broker.groups,
        request.group_ids,
        lambda shard, group_id, _: shard.consumer.describe(group_id),
        ConsumerGroupDescribeDescribedGroup,
        served=broker.coordinators.serves_consumer_groups,
    )
    if request.include_authorized_operations:
        add_authorized_operations(broker.access, context.session, groups)
    return ConsumerGroupDescribeResponse(groups=groups)
