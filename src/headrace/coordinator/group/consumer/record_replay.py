"""The records of consumer groups, taken in."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from headrace.cluster.image import MetadataImage
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.group.consumer import group_records
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.member import (
    NONE_OWNED,
    ConsumerMember,
    MemberState,
    ResolvedPattern,
)
from headrace.coordinator.group.group import Group
from headrace.coordinator.group.group_manager import Replay
from headrace.coordinator.group.modern.modern_group import NO_EPOCH
from headrace.coordinator.group.modern.record_replay import (
    Taker,
    replays_into,
    take_epoch,
    take_target,
    take_target_epoch,
)
from headrace.coordinator.group.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from headrace.protocol.struct import Struct


def take(group: ConsumerGroup, change: RecordChange) -> None:
    """Replays a record into a group that need not be in any table."""
    _TAKERS[type(change.key)](group, change.key, change.value)


def replays(
    groups: dict[str, Group], image: Callable[[], MetadataImage]
) -> Mapping[type[Struct], Replay]:
    """For `groups.part.Part`."""
    return replays_into(
        groups,
        ConsumerGroup,
        lambda group_id: ConsumerGroup(group_id, image),
        _TAKERS,
        last=ConsumerGroupMetadataKey,
    )


def _take_partition_metadata(
    group: ConsumerGroup,
    key: ConsumerGroupPartitionMetadataKey,
    value: ConsumerGroupPartitionMetadataValue | None,
) -> None:
    group.has_partition_metadata = value is not None


def _take_member(
    group: ConsumerGroup,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue | None,
) -> None:
    if value is None:
        group.remove_member(key.member_id)
        return
    member = group.members.get(key.member_id) or ConsumerMember(member_id=key.member_id)
    group.update_member(
        replace(
            member,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            pattern=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=group_records.classic_membership(value.classic_member_metadata),
        )
    )


def _take_current(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.update_member(
                replace(
                    member,
                    epoch=NO_EPOCH,
                    previous_epoch=NO_EPOCH,
                    state=MemberState.STABLE,
                    assigned=NONE_OWNED,
                    revoking=NONE_OWNED,
                )
            )
        return
    group.update_member(
        replace(
            member or ConsumerMember(member_id=key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=group_records.member_state(value.state),
            assigned=group_records.owned_partitions(value.assigned_partitions, value.member_epoch),
            revoking=group_records.owned_partitions(
                value.partitions_pending_revocation, value.member_epoch
            ),
        )
    )


def _take_pattern(
    group: ConsumerGroup,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
) -> None:
    resolved = None
    if value is not None:
        resolved = ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)
    group.resolve(key.regular_expression, resolved)


_TAKERS: Final[Mapping[type[Struct], Taker[ConsumerGroup]]] = {
    ConsumerGroupMetadataKey: take_epoch,
    ConsumerGroupPartitionMetadataKey: _take_partition_metadata,
    ConsumerGroupMemberMetadataKey: _take_member,
    ConsumerGroupTargetAssignmentMetadataKey: take_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: take_target,
    ConsumerGroupCurrentMemberAssignmentKey: _take_current,
    ConsumerGroupRegularExpressionKey: _take_pattern,
}
