"""The ShareGroupDescribe response for a group and its members."""

from headrace.cluster.image import MetadataImage
from headrace.coordinator.group.modern.subscribed_topics import with_topic_names
from headrace.coordinator.group.share.member import ShareMember
from headrace.coordinator.group.share.share_group import ShareGroup
from headrace.protocol.messages.share_group_describe import (
    ShareGroupDescribeAssignment,
    ShareGroupDescribeDescribedGroup,
    ShareGroupDescribeMember,
    ShareGroupDescribeTopicPartitions,
)


def describe(
    group: ShareGroup, assignor: str, image: MetadataImage, now_ms: int
) -> ShareGroupDescribeDescribedGroup:
    return ShareGroupDescribeDescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name(now_ms),
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[_member(member, image) for member in group.members.values()],
    )


def _member(member: ShareMember, image: MetadataImage) -> ShareGroupDescribeMember:
    return ShareGroupDescribeMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=ShareGroupDescribeAssignment(
            topic_partitions=[
                ShareGroupDescribeTopicPartitions(
                    topic_id=topic_id, topic_name=name, partitions=partitions
                )
                for name, topic_id, partitions in with_topic_names(member.assigned, image)
            ]
        ),
    )
