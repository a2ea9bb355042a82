"""ListPartitionReassignments (key 46), version 0: lists the replica moves in progress."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.reassignment import list_reassignments
from headrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    asked = None
    if request.topics is not None:
        asked = [
            (topic.name, index) for topic in request.topics for index in topic.partition_indexes
        ]
    ongoing = list_reassignments(broker.metadata.image, asked)
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            OngoingTopicReassignment(
                name=topic,
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=each.index,
                        replicas=list(each.partition.replicas),
                        adding_replicas=list(each.partition.adding),
                        removing_replicas=list(each.partition.removing),
                    )
                    for each in group
                ],
            )
            for topic, group in groupby(ongoing, key=lambda each: each.topic)
        ],
    )
