"""AlterPartitionReassignments (key 45), versions 0-1: starts or cancels replica moves."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from headrace.broker.metadata.change_log import decide_logged
from headrace.broker.network.dispatch import Context
from headrace.controller.reassignment import Reassignment, alter_reassignments
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


async def handle(
    broker: Broker, context: Context, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    wanted = [
        Reassignment(
            topic.name,
            asked.partition_index,
            None if asked.replicas is None else tuple(asked.replicas),
        )
        for topic in request.topics
        for asked in topic.partitions
    ]
    results = await decide_logged(
        broker.metadata,
        context,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        lambda controller: alter_reassignments(
            controller.image,
            controller.rules,
            wanted,
            allow_factor_change=request.allow_replication_factor_change,
        ),
    )
    answers = iter(results)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=each.index,
                        error_code=each.error.code,
                        error_message=each.error.message,
                    )
                    for each in islice(answers, len(topic.partitions))
                ],
            )
            for topic in request.topics
        ],
    )
