"""Replay of the records of consumer groups."""

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
    GroupReplay,
    current_replay,
    member_replay,
    replay_epoch,
    replay_target,
    replay_target_epoch,
    replays_into,
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


def replay_record(group: ConsumerGroup, change: RecordChange) -> None:
    """Applies a record to a group that need not be in the shard's table."""
    _REPLAYS[type(change.key)](group, change.key, change.value)


def replays(
    groups: dict[str, Group], image: Callable[[], MetadataImage]
) -> Mapping[type[Struct], Replay]:
    """The replay functions for the records of consumer groups, for `GroupManager`."""
    return replays_into(
        groups,
        ConsumerGroup,
        lambda group_id: ConsumerGroup(group_id, image),
        _REPLAYS,
        last=ConsumerGroupMetadataKey,
    )


def _replay_partition_metadata(
    group: ConsumerGroup,
    key: ConsumerGroupPartitionMetadataKey,
    value: ConsumerGroupPartitionMetadataValue | None,
) -> None:
    group.has_partition_metadata = value is not None


def _new_member(member_id: str) -> ConsumerMember:
    return ConsumerMember(member_id=member_id)


def _with_metadata(
    member: ConsumerMember, value: ConsumerGroupMemberMetadataValue
) -> ConsumerMember:
    return replace(
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


def _with_current(
    member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerMember:
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=group_records.member_state(value.state),
        assigned=group_records.owned_partitions(value.assigned_partitions, value.member_epoch),
        revoking=group_records.owned_partitions(
            value.partitions_pending_revocation, value.member_epoch
        ),
    )


def _without_current(member: ConsumerMember) -> ConsumerMember:
    return replace(
        member,
        epoch=NO_EPOCH,
        previous_epoch=NO_EPOCH,
        state=MemberState.STABLE,
        assigned=NONE_OWNED,
        revoking=NONE_OWNED,
    )


def _replay_pattern(
    group: ConsumerGroup,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
) -> None:
    resolved = None
    if value is not None:
        resolved = ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)
    group.resolve(key.regular_expression, resolved)


_REPLAYS: Final[Mapping[type[Struct], GroupReplay[ConsumerGroup]]] = {
    ConsumerGroupMetadataKey: replay_epoch,
    ConsumerGroupPartitionMetadataKey: _replay_partition_metadata,
    ConsumerGroupMemberMetadataKey: member_replay(_new_member, _with_metadata),
    ConsumerGroupTargetAssignmentMetadataKey: replay_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: replay_target,
    ConsumerGroupCurrentMemberAssignmentKey: current_replay(
        _new_member, _with_current, _without_current
    ),
    ConsumerGroupRegularExpressionKey: _replay_pattern,
}
