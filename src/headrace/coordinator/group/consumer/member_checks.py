"""Who sends a request: a member of the group, a new one, or one that is fenced off."""

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.classic.result_builder import ResultBuilder
from headrace.coordinator.group.consumer import group_records
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.member import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    Owned,
)
from headrace.coordinator.group.consumer.reconciliation import Reported
from headrace.coordinator.group.consumer.timers import cancel_all
from headrace.coordinator.group.group import Group
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequestTopicPartitions,
)


def not_a_consumer_group(group_id: str, group: Group | None) -> CoordinatorError:
    """Why a request for a consumer group is refused."""
    what = f"Consumer group {group_id} not found."
    if group is not None:
        what = f"Group {group_id} is not a consumer group."
    return CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, what)


def random_member_id(random: Random) -> str:
    """As Kafka's: 128 bits in URL-safe base64, and no option if it is put on a command line."""
    while True:
        member_id = urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
        if not member_id.startswith("-"):
            return member_id


def check_not_full(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    if len(group.members) >= max_size and member_id not in group.members:
        raise CoordinatorError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )


def new_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """The member if it is there, as one that lost its epoch and joins again is; else a blank."""
    return group.members.get(member_id) or ConsumerMember(member_id=member_id)


def static_joiner(
    group: ConsumerGroup, member_id: str, instance_id: str, draft: ResultBuilder, *, classic: bool
) -> ConsumerMember:
    """A static member joins: a new one, or the next process of one that is known.

    The new process takes over everything, under its own member id. Between two processes that
    both heartbeat, the first one keeps the instance id; a classic member cannot tell that its
    process is another one, so there the last one wins, as in classic groups.
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
    draft.changes.extend(group_records.member_tombstones(group_id, known.member_id))
    draft.changes.append(group_records.member_record(group_id, successor))
    draft.changes.append(
        group_records.target_record(group_id, member_id, group.target_of(known.member_id))
    )
    draft.changes.append(group_records.current_record(group_id, successor))
    if known.member_id != member_id:
        draft.timers.extend(cancel_all(group_id, known.member_id))
    return successor


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The member with that instance id, if the request is from its present process."""
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
    """A member must know its epoch, or the one before: then it has missed the answer that told
    it, and owns nothing that the new epoch has taken away."""
    if epoch in (member.epoch, JOINING_EPOCH):
        return
    if epoch > member.epoch:
        relation = "greater"
    elif epoch == member.previous_epoch and _within(reported, member.assigned):
        return
    else:
        relation = "smaller"
    raise CoordinatorError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _within(reported: Reported | None, assigned: Owned) -> bool:
    return reported is not None and all(
        partition in assigned.get(topic_id, {})
        for topic_id, partitions in reported.items()
        for partition in partitions
    )


def reported_partitions(
    listed: Iterable[ConsumerGroupHeartbeatRequestTopicPartitions] | None,
) -> Reported | None:
    """What the request says that the member owns; None if it says nothing."""
    if listed is None:
        return None
    reported: dict[bytes, set[int]] = {}
    for one in listed:
        reported.setdefault(bytes(one.topic_id), set()).update(one.partitions)
    return {topic_id: partitions for topic_id, partitions in reported.items() if partitions}
