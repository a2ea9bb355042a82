"""DescribeTopicPartitions (key 75), version 0: describes topics page by page (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.cluster.image import MetadataImage, Topic
from headrace.cluster.topic_names import missing_topic_error
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from headrace.security.authorization.acl import AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image = broker.metadata.image
    asked = {topic.name for topic in request.topics}
    names, denied = _describable(broker, context, asked)
    first_partition = 0
    if request.cursor is not None:
        if request.cursor.partition_index < 0 or (asked and request.cursor.topic_name not in asked):
            return _reject_cursor(request)
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first_partition = request.cursor.partition_index
    # At least one partition per page, or a client that follows the cursor would never finish.
    room = max(1, min(request.response_partition_limit, broker.limits.max_partitions_per_page))
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        if room <= 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(
                topic_name=name, partition_index=0
            )
            break
        described = _describe_topic(image, name, first_partition, room)
        described.topic_authorized_operations = broker.access.authorized_operations(
            context.session, AclResourceType.TOPIC, name
        )
        response.topics.append(described)
        end = first_partition + len(described.partitions)
        room -= len(described.partitions)
        first_partition = 0
        topic = image.topics.get(name)
        if topic is not None and end < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponseCursor(
                topic_name=name, partition_index=end
            )
            break
    response.topics += [_denied_topic(name) for name in denied]
    return response


def _describable(broker: Broker, context: Context, asked: set[str]) -> tuple[list[str], list[str]]:
    """The topics to describe and the denied ones. If all are asked for, denied ones are hidden."""
    access, session = broker.access, context.session
    names = sorted(asked or broker.metadata.image.topics)
    if not access.is_enforced:
        return names, []
    decide = access.allows if asked else access.shows
    allowed = [
        name
        for name in names
        if decide(session, AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
    ]
    return allowed, sorted(asked.difference(allowed))


def _denied_topic(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, partitions=[]
    )


def _reject_cursor(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name, partitions=[]
            )
            for topic in request.topics
        ]
    )


def _describe_topic(
    image: MetadataImage, name: str, first: int, room: int
) -> DescribeTopicPartitionsResponseTopic:
    topic = image.topics.get(name)
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(
            error_code=missing_topic_error(name),
            name=name,
            partitions=[],
        )
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=_described_partitions(topic, first, room, image.live_ids),
    )


def _described_partitions(
    topic: Topic, first: int, room: int, live: frozenset[int]
) -> list[DescribeTopicPartitionsResponsePartition]:
    return [
        DescribeTopicPartitionsResponsePartition(
            partition_index=index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            eligible_leader_replicas=list(partition.eligible_leaders),
            last_known_elr=[],
            offline_replicas=[id_ for id_ in partition.replicas if id_ not in live],
        )
        for index, partition in enumerate(topic.partitions[first : first + room], start=first)
    ]
