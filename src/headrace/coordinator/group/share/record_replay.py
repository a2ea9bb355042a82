"""Replay of the records of share groups."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from headrace.coordinator.group.group import Group
from headrace.coordinator.group.group_manager import Replay
from headrace.coordinator.group.modern.assignor_spec import NOTHING
from headrace.coordinator.group.modern.modern_group import NO_EPOCH
from headrace.coordinator.group.modern.record_replay import (
    GroupReplay,
    assignment_of,
    current_replay,
    member_replay,
    replay_epoch,
    replay_target,
    replay_target_epoch,
    replays_into,
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
    """The replay functions for the records of share groups, for `GroupManager`."""
    return replays_into(groups, ShareGroup, ShareGroup, _REPLAYS, last=ShareGroupMetadataKey)


def _new_member(member_id: str) -> ShareMember:
    return ShareMember(member_id=member_id)


def _with_metadata(member: ShareMember, value: ShareGroupMemberMetadataValue) -> ShareMember:
    return replace(
        member,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
    )


def _with_current(
    member: ShareMember, value: ShareGroupCurrentMemberAssignmentValue
) -> ShareMember:
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        assigned=assignment_of(value.assigned_partitions),
    )


def _without_current(member: ShareMember) -> ShareMember:
    return replace(member, epoch=NO_EPOCH, previous_epoch=NO_EPOCH, assigned=NOTHING)


def _replay_state_topics(
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


_REPLAYS: Final[Mapping[type[Struct], GroupReplay[ShareGroup]]] = {
    ShareGroupMetadataKey: replay_epoch,
    ShareGroupMemberMetadataKey: member_replay(_new_member, _with_metadata),
    ShareGroupTargetAssignmentMetadataKey: replay_target_epoch,
    ShareGroupTargetAssignmentMemberKey: replay_target,
    ShareGroupCurrentMemberAssignmentKey: current_replay(
        _new_member, _with_current, _without_current
    ),
    ShareGroupStatePartitionMetadataKey: _replay_state_topics,
}
