"""The record of a classic group: the state that survives a move of its coordinator."""

from collections.abc import Mapping

from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.classic_state import ClassicState
from headrace.coordinator.group.classic.member import NO_ASSIGNMENT, ClassicMember, MemberProtocol
from headrace.coordinator.group.records.classic import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
)


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> RecordChange:
    """The record of the group, with these assignments by member id."""
    return RecordChange(
        GroupMetadataKey(group_id=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=group.protocol,
            leader=group.leader,
            current_state_timestamp=group.state_since_ms,
            members=[
                _member_record(member, group.protocol, assignments.get(member_id, NO_ASSIGNMENT))
                for member_id, member in group.members.items()
            ],
        ),
    )


def _member_record(
    member: ClassicMember, protocol: str | None, assignment: bytes
) -> GroupMetadataMember:
    return GroupMetadataMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )


def new_group_record(group: ClassicGroup) -> RecordChange:
    """The first record of a new group, which has no generation yet."""
    return RecordChange(
        GroupMetadataKey(group_id=group.group_id),
        GroupMetadataValue(current_state_timestamp=group.state_since_ms),
    )


def load_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group from its record. Its members support only the protocol of the generation."""
    state = ClassicState.STABLE if value.members else ClassicState.EMPTY
    group = ClassicGroup(group_id, value.current_state_timestamp, state)
    group.generation = value.generation
    group.protocol = (value.protocol or "") if value.members else None
    for one in value.members:
        group.add(_load_member(group_id, value, one))
    group.protocol_type = value.protocol_type
    if value.leader in group.members:
        group.leader = value.leader
    group.topics = group.compute_topics()
    return group


def _load_member(
    group_id: str, value: GroupMetadataValue, one: GroupMetadataMember
) -> ClassicMember:
    rebalance_timeout_ms = one.rebalance_timeout
    if rebalance_timeout_ms < 0:
        # Records of version 0 do not have it.
        rebalance_timeout_ms = one.session_timeout
    return ClassicMember(
        group_id=group_id,
        member_id=one.member_id,
        instance_id=one.group_instance_id,
        client_id=one.client_id,
        client_host=one.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=one.session_timeout,
        protocol_type=value.protocol_type,
        protocols=(MemberProtocol(value.protocol or "", bytes(one.subscription)),),
        assignment=bytes(one.assignment),
    )


def confirm_group(group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Applies the record that this coordinator has just written to the log.

    The group already has everything in it except the assignment, which completes the generation. A
    record without members, or of a static member that returned, changes nothing else.
    """
    if group.state is not ClassicState.COMPLETING_REBALANCE or group.generation != value.generation:
        return
    for one in value.members:
        group.members[one.member_id].assignment = bytes(one.assignment)
    # The time is the record's, not the clock's, so that a reload finds the same.
    group.transition_to(ClassicState.STABLE, value.current_state_timestamp)
