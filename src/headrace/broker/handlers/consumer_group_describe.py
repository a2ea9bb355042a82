"""ConsumerGroupDescribe (key 69), versions 0-1: describes consumer groups (KIP-848).

* v1: the member type; a member may still use the classic protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.coordinators.group_descriptions import add_authorized_operations, describe_each
from headrace.broker.network.dispatch import Context
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
    groups = describe_each(
        broker.groups,
        request.group_ids,
        lambda shard, group_id, _: shard.consumer.describe(group_id),
        ConsumerGroupDescribeDescribedGroup,
        served=broker.coordinators.serves_consumer_groups,
    )
    if request.include_authorized_operations:
        add_authorized_operations(groups)
    return ConsumerGroupDescribeResponse(groups=groups)
