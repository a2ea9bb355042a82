"""The records of a share group, as Kafka 4.3 writes them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from headrace.coordinator.record_format import Change
from headrace.groups.modern.spec import Assignment
from headrace.groups.modern.tombstones import GroupKeys
from headrace.groups.records.share import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupPartitions,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTopicInfo,
    ShareGroupTopicPartitionsInfo,
)
from headrace.groups.share.member import ShareMember
from headrace.groups.share.state_topics import StateTopic, StateTopics

_KEYS: Final = GroupKeys(
    group=ShareGroupMetadataKey,
    target_epoch=ShareGroupTargetAssignmentMetadataKey,
    member=ShareGroupMemberMetadataKey,
    target=ShareGroupTargetAssignmentMemberKey,
    current=ShareGroupCurrentMemberAssignmentKey,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Change:
    return Change(
        ShareGroupMetadataKey(group_id=group_id),
        ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_record(group_id: str, member: ShareMember) -> Change:
    """Who the member is and what it asks for."""
    return Change(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
        ),
    )


def target_record(group_id: str, member_id: str, target: Assignment) -> Change:
    return Change(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(topic_partitions=_partitions(target)),
    )


def target_epoch_record(group_id: str, epoch: int, assigned_at_ms: int) -> Change:
    return Change(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=assigned_at_ms
        ),
    )


def current_record(group_id: str, member: ShareMember) -> Change:
    """What the member has, and in which epoch."""
    return Change(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            assigned_partitions=_partitions(member.assigned),
        ),
    )


def _partitions(assignment: Assignment) -> list[ShareGroupPartitions]:
    return [
        ShareGroupPartitions(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in assignment.items()
    ]


def state_topics_record(group_id: str, topics: StateTopics) -> Change:
    return Change(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_topics(topics.initializing),
            initialized_topics=_topics(topics.initialized),
            deleting_topics=[
                ShareGroupTopicInfo(topic_id=topic_id, topic_name=name)
                for topic_id, name in topics.deleting.items()
            ],
        ),
    )


def _topics(topics: Mapping[bytes, StateTopic]) -> list[ShareGroupTopicPartitionsInfo]:
    return [
        ShareGroupTopicPartitionsInfo(
            topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions)
        )
        for topic_id, topic in topics.items()
    ]


def member_tombstones(group_id: str, member_id: str) -> Iterator[Change]:
    return _KEYS.member_tombstones(group_id, member_id)


def group_tombstones(group_id: str, members: Collection[str]) -> list[Change]:
    """Deletes the group with all its members."""
    state = Change(ShareGroupStatePartitionMetadataKey(group_id=group_id), None)
    return _KEYS.group_tombstones(group_id, members, [state])
