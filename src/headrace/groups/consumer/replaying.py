"""The records of consumer groups, taken in."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from headrace.cluster.image import MetadataImage
from headrace.coordinator.record_format import Change
from headrace.groups.consumer import log
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.consumer.member import NONE_OWNED, ConsumerMember, MemberState, ResolvedPattern
from headrace.groups.group import Group
from headrace.groups.modern.group import NO_EPOCH
from headrace.groups.part import Replay
from headrace.groups.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from headrace.protocol.struct import Struct


def take(group: ConsumerGroup, change: Change) -> None:
    """Replays a record into a group that need not be in any table."""
    _TAKERS[type(change.key)](group, change.key, change.value)


def replays(
    groups: dict[str, Group], image: Callable[[], MetadataImage]
) -> Mapping[type[Struct], Replay]:
    """For `groups.part.Part`. A group is there from its first record to its last tombstone.

    Compaction may have removed any record that a later one replaces, so no record can count on
    another one.
    """

    def replay(taker: "_Taker", key: Any, value: Any) -> None:  # noqa: ANN401
        group = groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            group = groups[key.group_id] = ConsumerGroup(key.group_id, image)
        taker(group, key, value)
        if value is None and type(key) is ConsumerGroupMetadataKey:
            del groups[key.group_id]

    return {key: partial(replay, taker) for key, taker in _TAKERS.items()}


def _take_epoch(
    group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
) -> None:
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash


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
            classic=log.classic_membership(value.classic_member_metadata),
        )
    )


def _take_target_epoch(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    group.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
    group.assigned_at_ms = 0 if value is None else value.assignment_timestamp


def _take_target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = {
            bytes(one.topic_id): frozenset(one.partitions) for one in value.topic_partitions
        }


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
            state=log.member_state(value.state),
            assigned=log.owned_partitions(value.assigned_partitions, value.member_epoch),
            revoking=log.owned_partitions(value.partitions_pending_revocation, value.member_epoch),
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


_Taker = Callable[[ConsumerGroup, Any, Any], None]

_TAKERS: Final[Mapping[type[Struct], _Taker]] = {
    ConsumerGroupMetadataKey: _take_epoch,
    ConsumerGroupPartitionMetadataKey: _take_partition_metadata,
    ConsumerGroupMemberMetadataKey: _take_member,
    ConsumerGroupTargetAssignmentMetadataKey: _take_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _take_target,
    ConsumerGroupCurrentMemberAssignmentKey: _take_current,
    ConsumerGroupRegularExpressionKey: _take_pattern,
}
