"""The sender of a request: a member of the group, a new one, or a fenced one."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.consumer import group_records
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.member import STATIC_LEAVING_EPOCH, ConsumerMember, Owned
from headrace.coordinator.group.consumer.reconciliation import Reported
from headrace.coordinator.group.consumer.timers import cancel_all
from headrace.coordinator.group.group import Group, GroupType
from headrace.coordinator.group.modern.member_checks import wrong_epoch
from headrace.coordinator.group.modern.modern_group import JOINING_EPOCH
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from headrace.protocol.types import encode_uuid


def not_a_consumer_group(group_id: str, group: Group | None) -> CoordinatorError:
    """The error for a request to a group that is not a consumer group."""
    what = f"Consumer group {group_id} not found."
    if group is not None:
        what = f"Group {group_id} is not a consumer group."
    return CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, what)


def random_member_id(random: Random) -> str:
    """A member id like Kafka's: 128 bits in URL-safe base64. It never starts with a dash, which a
    command line would parse as an option."""
    while True:
        member_id = encode_uuid(random.randbytes(16))
        if not member_id.startswith("-"):
            return member_id


def new_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """The member if it is in the group, e.g. one that lost its epoch and rejoins; else a new
    one."""
    return group.members.get(member_id) or ConsumerMember(member_id=member_id)


def static_joiner(
    group: ConsumerGroup, member_id: str, instance_id: str, result: ResultBuilder, *, classic: bool
) -> ConsumerMember:
    """A static member joins: a new one, or the next process of a known one.

    The new process gets the member's state under its own member id. Between two processes that both
    heartbeat, the first one keeps the instance id. A classic member does not know that its process
    is new, so among classic members the last process wins, as in classic groups.
    """
    known = group.static_member(instance_id)
    if known is None:
        return new_member(group, member_id)
    if not classic and known.classic is None and known.epoch != STATIC_LEAVING_EPOCH:
        raise CoordinatorError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {known.member_id} member.",
        )
    successor = replace(
        known, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH
    )
    group_id = group.group_id
    result.changes.extend(group.records.member_tombstones(group_id, known.member_id))
    result.changes.append(group_records.member_record(group_id, successor))
    result.changes.append(
        group.records.target(group_id, member_id, group.target_of(known.member_id))
    )
    result.changes.append(group_records.current_record(group_id, successor))
    if known.member_id != member_id:
        result.timers.extend(cancel_all(group_id, known.member_id))
    return successor


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The member with that instance id, if the request is from its current process."""
    known = group.static_member(instance_id)
    if known is None:
        raise CoordinatorError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown."
        )
    if known.member_id != member_id:
        raise CoordinatorError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{known.member_id}.",
        )
    return known


def check_epoch(member: ConsumerMember, epoch: int, reported: Reported | None) -> None:
    """Raises unless the member sends its epoch or the previous one. In the latter case it missed
    the response with the new epoch, and must not own a partition that the new epoch revokes."""
    if epoch in (member.epoch, JOINING_EPOCH):
        return
    missed_response = member.previous_epoch == epoch < member.epoch
    if not (missed_response and _within(reported, member.assigned)):
        raise wrong_epoch(GroupType.CONSUMER, epoch, member.epoch)


def _within(reported: Reported | None, assigned: Owned) -> bool:
    return reported is not None and all(
        partition in assigned.get(topic_id, {})
        for topic_id, partitions in reported.items()
        for partition in partitions
    )


def reported_partitions(
    listed: Iterable[ConsumerGroupHeartbeatRequestTopicPartitions] | None,
) -> Reported | None:
    """The owned partitions in the request; None if it has none."""
    if listed is None:
        return None
    reported: dict[bytes, set[int]] = {}
    for one in listed:
        reported.setdefault(bytes(one.topic_id), set()).update(one.partitions)
    return {topic_id: partitions for topic_id, partitions in reported.items() if partitions}
