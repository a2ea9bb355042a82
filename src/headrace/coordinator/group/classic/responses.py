"""The responses to members."""

from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.classic.member import ClassicMember
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from headrace.protocol.messages.sync_group import SyncGroupResponse

UNKNOWN_MEMBER = ""
"""The member id of a member that has none yet or has lost it."""


def join_response(
    group: ClassicGroup,
    member: ClassicMember,
    *,
    leader: str | None = None,
    with_members: bool | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The current generation; the leader also gets its members."""
    if with_members is None:
        with_members = group.leader == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=_members(group) if with_members else [],
    )


def _members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members.values()
    ]


def join_error(code: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id)


def sync_response(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment
    )


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)
