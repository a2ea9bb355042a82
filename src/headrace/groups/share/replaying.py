"""The records of share groups, taken in."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from headrace.groups.group import Group
from headrace.groups.modern.group import NO_EPOCH
from headrace.groups.modern.spec import NOTHING
from headrace.groups.part import Replay
from headrace.groups.records.share import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTopicPartitionsInfo,
)
from headrace.groups.share import log
from headrace.groups.share.group import ShareGroup
from headrace.groups.share.member import ShareMember
from headrace.groups.share.state_topics import StateTopic, StateTopics
from headrace.protocol.struct import Struct


def replays(groups: dict[str, Group]) -> Mapping[type[Struct], Replay]:
    """For `groups.part.Part`. A group is there from its first record to its last tombstone."""

    def replay(taker: "_Taker", key: Any, value: Any) -> None:  # noqa: ANN401
        group = groups.get(key.group_id)
        if not isinstance(group, ShareGroup):
            if value is None:
                return
            group = groups[key.group_id] = ShareGroup(key.group_id)
        taker(group, key, value)
        if value is None and type(key) is ShareGroupMetadataKey:
            del groups[key.group_id]

    return {key: partial(replay, taker) for key, taker in _TAKERS.items()}


def _take_epoch(
    group: ShareGroup, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None
) -> None:
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash


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


def _take_target_epoch(
    group: ShareGroup,
    key: ShareGroupTargetAssignmentMetadataKey,
    value: ShareGroupTargetAssignmentMetadataValue | None,
) -> None:
    group.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
    group.assigned_at_ms = 0 if value is None else value.assignment_timestamp


def _take_target(
    group: ShareGroup,
    key: ShareGroupTargetAssignmentMemberKey,
    value: ShareGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = log.assignment_of(value.topic_partitions)


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
            assigned=log.assignment_of(value.assigned_partitions),
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


_Taker = Callable[[ShareGroup, Any, Any], None]

_TAKERS: Final[Mapping[type[Struct], _Taker]] = {
    ShareGroupMetadataKey: _take_epoch,
    ShareGroupMemberMetadataKey: _take_member,
    ShareGroupTargetAssignmentMetadataKey: _take_target_epoch,
    ShareGroupTargetAssignmentMemberKey: _take_target,
    ShareGroupCurrentMemberAssignmentKey: _take_current,
    ShareGroupStatePartitionMetadataKey: _take_state_topics,
}
