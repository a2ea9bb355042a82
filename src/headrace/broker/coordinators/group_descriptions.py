"""Descriptions of groups: one for each id of a request, or in its place why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.broker.network.authorized_operations import GROUP_OPERATIONS
from headrace.coordinator.common.errors import CoordinatorError
from headrace.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.broker.coordinators.coordinator import Coordinator
    from headrace.coordinator.group.group_shard import GroupShard


class Described(Protocol):
    """What the answers say of every kind of group."""

    group_id: str
    error_code: int
    authorized_operations: int


class Refusable(Described, Protocol):
    """A description that can tell why there is none."""

    error_message: str | None


R = TypeVar("R", bound=Refusable)


def describe_each(
    coordinator: Coordinator[GroupShard],
    group_ids: Iterable[str],
    describe: Callable[[GroupShard, str, int], R],
    refused: Callable[[], R],
    *,
    served: bool,
) -> list[R]:
    """In the order of the request; `served` is whether this broker speaks the groups' protocol."""

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


def tell_operations(groups: Iterable[Described]) -> None:
    """Says of the groups that were found what the client may do."""
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
