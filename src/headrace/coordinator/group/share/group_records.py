"""The records of a share group, as Kafka 4.3 writes them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.group.modern.assignor_spec import Assignment
from headrace.coordinator.group.modern.tombstones import GroupKeys
from headrace.coordinator.group.records.share import (
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
from headrace.coordinator.group.share.member import ShareMember
from headrace.coordinator.group.share.state_topics import StateTopic, StateTopics

_KEYS: Final = GroupKeys(
    group=ShareGroupMetadataKey,
    target_epoch=ShareGroupTargetAssignmentMetadataKey,
    member=ShareGroupMemberMetadataKey,
    target=ShareGroupTargetAssignmentMemberKey,
    current=ShareGroupCurrentMemberAssignmentKey,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> RecordChange:
    return RecordChange(
        ShareGroupMetadataKey(group_id=group_id),
        ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_record(group_id: str, member: ShareMember) -> RecordChange:
    """Who the member is and what it asks for."""
    return RecordChange(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
        ),
    )


def target_record(group_id: str, member_id: str, target: Assignment) -> RecordChange:
    return RecordChange(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(topic_partitions=_partitions(target)),
    )


def target_epoch_record(group_id: str, epoch: int, assigned_at_ms: int) -> RecordChange:
    return RecordChange(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=assigned_at_ms
        ),
    )


def current_record(group_id: str, member: ShareMember) -> RecordChange:
    """What the member has, and in which epoch."""
    return RecordChange(
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


def state_topics_record(group_id: str, topics: StateTopics) -> RecordChange:
    return RecordChange(
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


def member_tombstones(group_id: str, member_id: str) -> Iterator[RecordChange]:
    return _KEYS.member_tombstones(group_id, member_id)


def group_tombstones(group_id: str, members: Collection[str]) -> list[RecordChange]:
    """Deletes the group with all its members."""
    state = RecordChange(ShareGroupStatePartitionMetadataKey(group_id=group_id), None)
    return _KEYS.group_tombstones(group_id, members, [state])
