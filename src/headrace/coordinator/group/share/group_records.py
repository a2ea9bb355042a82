"""The records of a share group, as Kafka 4.3 writes them."""

from collections.abc import Collection, Mapping
from typing import Final

from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.group.modern.assignor_spec import Assignment
from headrace.coordinator.group.modern.group_records import GroupRecords
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

RECORDS: Final = GroupRecords(
    group_key=ShareGroupMetadataKey,
    group_value=ShareGroupMetadataValue,
    target_epoch_key=ShareGroupTargetAssignmentMetadataKey,
    target_epoch_value=ShareGroupTargetAssignmentMetadataValue,
    member_key=ShareGroupMemberMetadataKey,
    target_key=ShareGroupTargetAssignmentMemberKey,
    target_value=ShareGroupTargetAssignmentMemberValue,
    target_partitions=ShareGroupPartitions,
    current_key=ShareGroupCurrentMemberAssignmentKey,
)


def member_record(group_id: str, member: ShareMember) -> RecordChange:
    """The member's identity and its subscription."""
    return RecordChange(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
        ),
    )


def current_record(group_id: str, member: ShareMember) -> RecordChange:
    """The partitions that the member owns, and in which epoch."""
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


def group_tombstones(group_id: str, members: Collection[str]) -> list[RecordChange]:
    """Deletes the group with all its members."""
    state = RecordChange(ShareGroupStatePartitionMetadataKey(group_id=group_id), None)
    return RECORDS.group_tombstones(group_id, members, [state])
