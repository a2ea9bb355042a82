"""A classic group becomes a consumer group when the first consumer of the new protocol joins.

Its members stay. They keep using the classic protocol (`classic_members`) until they are replaced
one by one, keep their assignments, and have the epoch that was their generation.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from headrace.cluster.image import MetadataImage
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.member import ClassicMember
from headrace.coordinator.group.classic.responses import join_error, sync_error
from headrace.coordinator.group.consumer import group_records
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.embedded_protocol import (
    MalformedProtocol,
    assignment_of,
    read_assignment,
    read_subscription,
    reported_by,
)
from headrace.coordinator.group.consumer.member import (
    ClassicMembership,
    ConsumerMember,
    MemberState,
)
from headrace.coordinator.group.consumer.record_replay import replay_record
from headrace.coordinator.group.consumer.timers import TimerKind, timer
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.modern.subscribed_topics import metadata_hash
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.errors import ErrorCode

_UPGRADING_POLICIES = ("upgrade", "bidirectional")


def upgrade(
    classic: ClassicGroup,
    image: Callable[[], MetadataImage],
    config: GroupConfig,
    result: ResultBuilder,
) -> ConsumerGroup:
    """The group after the replay of the result's records; raises if it cannot be converted."""
    _check(classic, config)
    try:
        changes = _records(classic, image())
    except MalformedProtocol:
        raise _refusal(classic, "the embedded consumer protocol is malformed") from None
    _release_waiting(classic, result)
    result.changes.extend(classic.tombstones())
    result.timers.extend(classic.timers())
    result.changes.extend(changes)
    group = ConsumerGroup(classic.group_id, image)
    for change in changes:
        replay_record(group, change)
    for member_id, member in group.members.items():
        assert member.classic is not None
        result.set_timer(
            timer(TimerKind.SESSION, group.group_id, member_id), member.classic.session_timeout_ms
        )
    return group


def _check(classic: ClassicGroup, config: GroupConfig) -> None:
    if config.consumer_migration_policy not in _UPGRADING_POLICIES:
        raise _refusal(classic, "online upgrade is disabled")
    if not classic.is_consumer_group:
        raise _refusal(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > config.consumer_max_size:
        raise _refusal(classic, "the group size exceeds the consumer group maximum size")


def _refusal(classic: ClassicGroup, reason: str) -> CoordinatorError:
    return CoordinatorError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def _release_waiting(classic: ClassicGroup, result: ResultBuilder) -> None:
    """Waiting JoinGroup and SyncGroup requests fail, so that their members rejoin the new group."""
    for member in classic.members.values():
        code = ErrorCode.REBALANCE_IN_PROGRESS
        result.complete(member.joining, join_error(code, member.member_id))
        result.complete(member.syncing, sync_error(code))

    def stop_waiting(error: CoordinatorError) -> None:
        for member in classic.members.values():
            classic.set_joining(member, None)
            member.syncing = None

    result.add_undo(stop_waiting)


def _records(classic: ClassicGroup, image: MetadataImage) -> list[RecordChange]:
    group_id, generation = classic.group_id, classic.generation
    members = _with_claims(
        [_member(classic, member, image) for member in classic.members.values()], classic, image
    )
    names = {name for member in members for name in member.topics}

    def records() -> Iterator[RecordChange]:
        for member in members:
            yield group_records.member_record(group_id, member)
        yield group_records.RECORDS.epoch(group_id, generation, metadata_hash(names, image))
        for member in members:
            target = {topic_id: frozenset(owned) for topic_id, owned in member.assigned.items()}
            yield group_records.RECORDS.target(group_id, member.member_id, target)
        yield group_records.RECORDS.target_epoch(group_id, generation, 0)
        for member in members:
            yield group_records.current_record(group_id, member)

    return list(records())


def _with_claims(
    members: list[ConsumerMember], classic: ClassicGroup, image: MetadataImage
) -> list[ConsumerMember]:
    """The members, with the partitions that are not assigned to them but that they owned when they
    joined.

    Cooperative members keep the partitions that a generation takes away until they learn of it, and
    then rejoin without them. Until then no other member may have them. Kafka considers them free.
    """
    subscriptions = {
        member_id: read_subscription(_metadata(classic, member))
        for member_id, member in classic.members.items()
    }
    taken = {
        (topic_id, partition)
        for member in members
        for topic_id, owned in member.assigned.items()
        for partition in owned
    }
    claims: dict[str, dict[bytes, dict[int, int]]] = {}
    for member_id, said in sorted(subscriptions.items(), key=lambda item: -item[1].generation_id):
        for topic_id, partitions in reported_by(said, image).items():
            for partition in partitions:
                if (topic_id, partition) not in taken:
                    taken.add((topic_id, partition))
                    claimed = claims.setdefault(member_id, {}).setdefault(topic_id, {})
                    claimed[partition] = classic.generation
    return [
        replace(member, state=MemberState.UNREVOKED_PARTITIONS, revoking=claims[member.member_id])
        if member.member_id in claims
        else member
        for member in members
    ]


def _metadata(classic: ClassicGroup, member: ClassicMember) -> bytes:
    """The member's subscription. A member that joined for the next generation may not support the
    protocol of this one; consumers send the same subscription for each."""
    for one in member.protocols:
        if one.name == classic.protocol:
            return one.metadata
    return member.protocols[0].metadata if member.protocols else b""


def _member(classic: ClassicGroup, member: ClassicMember, image: MetadataImage) -> ConsumerMember:
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _refusal(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch "
            "to a default assignor before re-attempting the upgrade",
        )
    subscription = read_subscription(_metadata(classic, member))
    generation = classic.generation
    return ConsumerMember(
        member_id=member.member_id,
        epoch=generation,
        previous_epoch=generation,
        state=MemberState.STABLE,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned={
            topic_id: dict.fromkeys(partitions, generation)
            for topic_id, partitions in assignment_of(assignment, image).items()
        },
        classic=ClassicMembership(member.session_timeout_ms, member.protocols),
    )
