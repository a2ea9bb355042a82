"""The records of a consumer group, as Kafka 4.3 writes them."""

from collections.abc import Collection, Mapping
from typing import Final

from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.group.classic.member import MemberProtocol
from headrace.coordinator.group.consumer.member import (
    ClassicMembership,
    ConsumerMember,
    MemberState,
    Owned,
    ResolvedPattern,
)
from headrace.coordinator.group.modern.group_records import GroupRecords
from headrace.coordinator.group.records.consumer import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupCurrentPartitions,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetPartitions,
)

RECORDS: Final = GroupRecords(
    group_key=ConsumerGroupMetadataKey,
    group_value=ConsumerGroupMetadataValue,
    target_epoch_key=ConsumerGroupTargetAssignmentMetadataKey,
    target_epoch_value=ConsumerGroupTargetAssignmentMetadataValue,
    member_key=ConsumerGroupMemberMetadataKey,
    target_key=ConsumerGroupTargetAssignmentMemberKey,
    target_value=ConsumerGroupTargetAssignmentMemberValue,
    target_partitions=ConsumerGroupTargetPartitions,
    current_key=ConsumerGroupCurrentMemberAssignmentKey,
)


def member_record(group_id: str, member: ConsumerMember) -> RecordChange:
    """The member's identity and its subscription."""
    return RecordChange(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.pattern,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.assignor,
            classic_member_metadata=_classic_metadata(member.classic),
        ),
    )


def _classic_metadata(classic: ClassicMembership | None) -> ClassicMemberMetadata | None:
    if classic is None:
        return None
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=one.name, metadata=one.metadata) for one in classic.protocols
        ],
    )


def classic_membership(metadata: ClassicMemberMetadata | None) -> ClassicMembership | None:
    """The reverse, for replay. A member without protocols is not a classic one."""
    if metadata is None or not metadata.supported_protocols:
        return None
    return ClassicMembership(
        metadata.session_timeout_ms,
        tuple(
            MemberProtocol(one.name, bytes(one.metadata)) for one in metadata.supported_protocols
        ),
    )


def current_record(group_id: str, member: ConsumerMember) -> RecordChange:
    """The partitions that the member owns, and in which epoch."""
    return RecordChange(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state.value,
            assigned_partitions=_partitions(member.assigned),
            partitions_pending_revocation=_partitions(member.revoking),
        ),
    )


def _partitions(owned: Owned) -> list[ConsumerGroupCurrentPartitions]:
    listed = []
    for topic_id, partitions in owned.items():
        numbers = sorted(partitions)
        listed.append(
            ConsumerGroupCurrentPartitions(
                topic_id=topic_id,
                partitions=numbers,
                assignment_epochs=[partitions[number] for number in numbers],
            )
        )
    return listed


def owned_partitions(listed: Collection[ConsumerGroupCurrentPartitions], epoch: int) -> Owned:
    """The reverse, for replay. Kafka before 4.3 wrote no epochs; then `epoch` is the member's."""
    owned: dict[bytes, dict[int, int]] = {}
    for one in listed:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            owned[bytes(one.topic_id)] = dict.fromkeys(one.partitions, max(epoch, 0))
        else:
            owned[bytes(one.topic_id)] = dict(zip(one.partitions, epochs, strict=True))
    return owned


def member_state(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN


def pattern_record(group_id: str, pattern: str, resolved: ResolvedPattern) -> RecordChange:
    """The topics that a pattern matches."""
    return RecordChange(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics),
            version=resolved.version,
            timestamp=resolved.resolved_at_ms,
        ),
    )


def pattern_tombstone(group_id: str, pattern: str) -> RecordChange:
    return RecordChange(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), None
    )


def partition_metadata_tombstone(group_id: str) -> RecordChange:
    """Deletes a record that Kafka before 4.1 wrote."""
    return RecordChange(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def group_tombstones(
    group_id: str, members: Collection[str], patterns: Mapping[str, object]
) -> list[RecordChange]:
    """Deletes the group with all its members."""
    extra = [pattern_tombstone(group_id, pattern) for pattern in patterns]
    extra.append(partition_metadata_tombstone(group_id))
    return RECORDS.group_tombstones(group_id, members, extra)
