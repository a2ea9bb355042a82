"""The records of share groups, taken in."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from headrace.coordinator.group.group import Group
from headrace.coordinator.group.group_manager import Replay
from headrace.coordinator.group.modern.assignor_spec import NOTHING
from headrace.coordinator.group.modern.modern_group import NO_EPOCH
from headrace.coordinator.group.modern.record_replay import (
    Taker,
    assignment_of,
    replays_into,
    take_epoch,
    take_target,
    take_target_epoch,
)
from headrace.coordinator.group.records.share import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTopicPartitionsInfo,
)
from headrace.coordinator.group.share.member import ShareMember
from headrace.coordinator.group.share.share_group import ShareGroup
from headrace.coordinator.group.share.state_topics import StateTopic, StateTopics
from headrace.protocol.struct import Struct


def replays(groups: dict[str, Group]) -> Mapping[type[Struct], Replay]:
    """For `groups.part.Part`."""
    return replays_into(groups, ShareGroup, ShareGroup, _TAKERS, last=ShareGroupMetadataKey)


def _take_member(
    group: ShareGroup, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group.remove_member(key.member_id)
        return
    member = group.members.get(key.member_id) or ShareMember(member_id=key.member_id)
    group.update_member(
        replace(
            member,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )
    )


def _take_current(
    group: ShareGroup,
    key: ShareGroupCurrentMemberAssignmentKey,
    value: ShareGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.update_member(
                replace(member, epoch=NO_EPOCH, previous_epoch=NO_EPOCH, assigned=NOTHING)
            )
        return
    group.update_member(
        replace(
            member or ShareMember(member_id=key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=assignment_of(value.assigned_partitions),
        )
    )


def _take_state_topics(
    group: ShareGroup,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
) -> None:
    if value is None:
        group.state_topics = StateTopics()
        return
    group.state_topics = StateTopics(
        initializing=_topics(value.initializing_topics),
        initialized=_topics(value.initialized_topics),
        deleting={bytes(one.topic_id): one.topic_name for one in value.deleting_topics},
    )


def _topics(listed: list[ShareGroupTopicPartitionsInfo]) -> dict[bytes, StateTopic]:
    return {
        bytes(one.topic_id): StateTopic(one.topic_name, frozenset(one.partitions)) for one in listed
    }


_TAKERS: Final[Mapping[type[Struct], Taker[ShareGroup]]] = {
    ShareGroupMetadataKey: take_epoch,
    ShareGroupMemberMetadataKey: _take_member,
    ShareGroupTargetAssignmentMetadataKey: take_target_epoch,
    ShareGroupTargetAssignmentMemberKey: take_target,
    ShareGroupCurrentMemberAssignmentKey: _take_current,
    ShareGroupStatePartitionMetadataKey: _take_state_topics,
}
