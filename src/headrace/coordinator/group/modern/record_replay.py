"""Replay of group records: the part that consumer groups and share groups have in common."""

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
V = TypeVar("V", bound=Struct)

GroupReplay = Callable[[G, Any, Any], None]
"""Applies the key and the value (None: a tombstone) of one record type to its group."""


class GroupValue(Protocol):
    """The epoch of a group."""

    epoch: int
    metadata_hash: int


class TargetValue(Protocol):
    """The epoch of a target assignment."""

    assignment_epoch: int
    assignment_timestamp: int


class MemberKey(Protocol):
    """The key of a record about a member."""

    member_id: str


class Partitions(Protocol):
    """Partitions of a topic."""

    topic_id: bytes
    partitions: list[int]


class MemberTargetValue(Protocol):
    """The target assignment of one member."""

    @property
    def topic_partitions(self) -> Collection[Partitions]: ...


def replays_into(
    groups: dict[str, Group],
    kind: type[G],
    create: Callable[[str], G],
    replays: Mapping[type[Struct], GroupReplay[G]],
    last: type[Struct],
) -> Mapping[type[Struct], Replay]:
    """The replay functions for `GroupManager`. A group exists from its first record to the
    tombstone of `last`.

    Compaction may have removed any record that a later one replaces, so the replay of a record must
    not depend on another record.
    """

    def replay(replay_record: GroupReplay[G], key: Any, value: Any) -> None:  # noqa: ANN401
        group_id: str = key.group_id
        group = groups.get(group_id)
        if not isinstance(group, kind):
            if value is None:
                return
            group = groups[group_id] = create(group_id)
        replay_record(group, key, value)
        if value is None and type(key) is last:
            del groups[group_id]

    return {key: partial(replay, replay_record) for key, replay_record in replays.items()}


def replay_epoch(group: ModernGroup[M], _key: object, value: GroupValue | None) -> None:
    if value is not None:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash


def replay_target_epoch(group: ModernGroup[M], _key: object, value: TargetValue | None) -> None:
    group.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
    group.assigned_at_ms = 0 if value is None else value.assignment_timestamp


def replay_target(group: ModernGroup[M], key: MemberKey, value: MemberTargetValue | None) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = assignment_of(value.topic_partitions)


def member_replay(
    new: Callable[[str], M], updated: Callable[[M, V], M]
) -> Callable[[ModernGroup[M], MemberKey, V | None], None]:
    """The replay of a member's metadata. `updated` applies the record to the member."""

    def replay(group: ModernGroup[M], key: MemberKey, value: V | None) -> None:
        if value is None:
            group.remove_member(key.member_id)
        else:
            member = group.members.get(key.member_id) or new(key.member_id)
            group.update_member(updated(member, value))

    return replay


def current_replay(
    new: Callable[[str], M], updated: Callable[[M, V], M], cleared: Callable[[M], M]
) -> Callable[[ModernGroup[M], MemberKey, V | None], None]:
    """The replay of a member's current assignment. `cleared` removes the assignment."""

    def replay(group: ModernGroup[M], key: MemberKey, value: V | None) -> None:
        member = group.members.get(key.member_id)
        if value is not None:
            group.update_member(updated(member or new(key.member_id), value))
        elif member is not None:
            group.update_member(cleared(member))

    return replay


def assignment_of(listed: Collection[Partitions]) -> Assignment:
    """The assignment in a record."""
    return {bytes(one.topic_id): frozenset(one.partitions) for one in listed}
