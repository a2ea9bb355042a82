"""Records of groups, taken in: what is the same for every kind of group."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from headrace.coordinator.group.group import Group
from headrace.coordinator.group.group_manager import Replay
from headrace.coordinator.group.modern.assignor_spec import Assignment
from headrace.coordinator.group.modern.modern_group import NO_EPOCH, ModernGroup, ModernMember
from headrace.protocol.struct import Struct

G = TypeVar("G", bound=Group)
M = TypeVar("M", bound=ModernMember)

Taker = Callable[[G, Any, Any], None]
"""Takes the key and the value of one record type into its group."""


class GroupValue(Protocol):
    """The epoch of a group."""

    epoch: int
    metadata_hash: int


class TargetValue(Protocol):
    """The epoch of a target."""

    assignment_epoch: int
    assignment_timestamp: int


class MemberKey(Protocol):
    """Names a member."""

    member_id: str


class Partitions(Protocol):
    """Partitions of a topic."""

    topic_id: bytes
    partitions: list[int]


class MemberTargetValue(Protocol):
    """What one member should have."""

    @property
    def topic_partitions(self) -> Collection[Partitions]: ...


def replays_into(
    groups: dict[str, Group],
    kind: type[G],
    create: Callable[[str], G],
    takers: Mapping[type[Struct], Taker[G]],
    last: type[Struct],
) -> Mapping[type[Struct], Replay]:
    """For `groups.part.Part`. A group is there from its first record to the tombstone of `last`.

    Compaction may have removed any record that a later one replaces, so no record can count on
    another one.
    """

    def replay(taker: Taker[G], key: Any, value: Any) -> None:  # noqa: ANN401
        group_id: str = key.group_id
        group = groups.get(group_id)
        if not isinstance(group, kind):
            if value is None:
                return
            group = groups[group_id] = create(group_id)
        taker(group, key, value)
        if value is None and type(key) is last:
            del groups[group_id]

    return {key: partial(replay, taker) for key, taker in takers.items()}


def take_epoch(group: ModernGroup[M], _key: object, value: GroupValue | None) -> None:
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash


def take_target_epoch(group: ModernGroup[M], _key: object, value: TargetValue | None) -> None:
    group.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
    group.assigned_at_ms = 0 if value is None else value.assignment_timestamp


def take_target(group: ModernGroup[M], key: MemberKey, value: MemberTargetValue | None) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = assignment_of(value.topic_partitions)


def assignment_of(listed: Collection[Partitions]) -> Assignment:
    """As a record lists it."""
    return {bytes(one.topic_id): frozenset(one.partitions) for one in listed}
