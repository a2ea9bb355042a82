"""Descriptions of groups: one for each group id of a request, or its error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from headrace.broker.access.access_control import AccessControl
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode
from headrace.security.authorization.acl import AclOperation, AclResourceType
from headrace.security.session import Session

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck
    from headrace.broker.coordinators.coordinator_runtime import CoordinatorRuntime
    from headrace.coordinator.group.group_shard import GroupShard


class Described(Protocol):
    """The fields that the description of every kind of group has."""

    group_id: str
    error_code: int
    authorized_operations: int


class Refusable(Described, Protocol):
    """A description with an error message."""

    error_message: str | None


class WithMembers(Refusable, Protocol):
    """A description with members."""

    members: list[Any]


R = TypeVar("R", bound=Refusable)
G = TypeVar("G", bound=WithMembers)

_UNDESCRIBABLE: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


def describe_each(
    coordinator: CoordinatorRuntime[GroupShard],
    group_ids: Iterable[str],
    describe: Callable[[GroupShard, str, int], R],
    refused: Callable[[], R],
    *,
    served: bool,
) -> list[R]:
    """In the order of the request; `served` is whether this broker supports the groups'
    protocol."""

    def one(group_id: str) -> R:
        try:
            if not served:
                raise CoordinatorError(ErrorCode.UNSUPPORTED_VERSION)
            if not group_id:
                raise CoordinatorError(ErrorCode.INVALID_GROUP_ID)
            return coordinator.read(
                group_id, lambda shard, now_ms: describe(shard, group_id, now_ms)
            )
        except CoordinatorError as error:
            refusal = refused()
            refusal.group_id = group_id
            refusal.error_code, refusal.error_message = error.code, error.message or None
            return refusal

    return [one(group_id) for group_id in group_ids]


def add_authorized_operations(
    access: AccessControl, session: Session, groups: Iterable[Described]
) -> None:
    """Sets the operations that the client may perform on the groups that were found."""
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = access.authorized_operations(
                session, AclResourceType.GROUP, group.group_id
            )


def refuse_undescribable(
    check: RequestCheck, groups: Iterable[G], topics_of: Callable[[G], Iterable[str]]
) -> None:
    """Hides the members of a group if they have a topic that the client may not describe."""
    for group in groups:
        if check.hidden_names(AclOperation.DESCRIBE, AclResourceType.TOPIC, topics_of(group)):
            group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            group.error_message = _UNDESCRIBABLE
            group.members = []
