"""Checks of a heartbeat that consumer groups and share groups have in common."""

from typing import TypeVar

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.group import GroupType
from headrace.coordinator.group.modern.modern_group import ModernGroup, ModernMember
from headrace.protocol.errors import ErrorCode

M = TypeVar("M", bound=ModernMember)


def check_not_full(group: ModernGroup[M], kind: GroupType, member_id: str, max_size: int) -> None:
    """Raises if the member is new and the group is full."""
    if len(group.members) >= max_size and member_id not in group.members:
        raise CoordinatorError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The {kind} group has reached its maximum capacity of {max_size} members.",
        )


def wrong_epoch(kind: GroupType, epoch: int, known_epoch: int) -> CoordinatorError:
    """The error for a member that sends an epoch which is neither its own nor the previous one."""
    relation = "greater" if epoch > known_epoch else "smaller"
    return CoordinatorError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {relation} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({known_epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )
