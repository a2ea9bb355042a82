"""Descriptions of groups: one for each group id of a request, or its error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.broker.network.authorized_operations import GROUP_OPERATIONS
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode

if TYPE_CHECKING:
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


R = TypeVar("R", bound=Refusable)


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


def add_authorized_operations(groups: Iterable[Described]) -> None:
    """Sets the operations that the client may perform on the groups that were found."""
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
