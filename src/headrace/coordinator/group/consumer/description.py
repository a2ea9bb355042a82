"""The ConsumerGroupDescribe response for a group and its members."""

from headrace.cluster.image import MetadataImage
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.embedded_protocol import without_epochs
from headrace.coordinator.group.consumer.member import ConsumerMember
from headrace.coordinator.group.modern.assignor_spec import Assignment
from headrace.coordinator.group.modern.subscribed_topics import with_topic_names
from headrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeTopicPartitions,
)

_CLASSIC, _CONSUMER = 0, 1
"""The protocol of a member, by the numbers of the message."""


def describe(
    group: ConsumerGroup, assignor: str, image: MetadataImage
) -> ConsumerGroupDescribeDescribedGroup:
    return ConsumerGroupDescribeDescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[
            _member(member, group.target_of(member_id), image)
            for member_id, member in group.members.items()
        ],
    )


def _member(
    member: ConsumerMember, target: Assignment, image: MetadataImage
) -> ConsumerGroupDescribeMember:
    has = dict(without_epochs(member.assigned))
    for topic_id, partitions in member.revoking.items():
        has[topic_id] = has.get(topic_id, frozenset()) | partitions.keys()
    return ConsumerGroupDescribeMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(has, image),
        target_assignment=_assignment(target, image),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(assignment: Assignment, image: MetadataImage) -> ConsumerGroupDescribeAssignment:
    return ConsumerGroupDescribeAssignment(
        topic_partitions=[
            ConsumerGroupDescribeTopicPartitions(
                topic_id=topic_id, topic_name=name, partitions=partitions
            )
            for name, topic_id, partitions in with_topic_names(assignment, image)
        ]
    )
