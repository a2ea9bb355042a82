"""Moves of consumer groups and share groups to other offsets: the target of each partition.

A target outside the log of its partition becomes the nearest offset, and says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition
from headrace.operations.positions import AtOffset, Bounds, Start, resolve_positions

Positions: TypeAlias = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Target:
    """The new offset in a partition: the requested one, limited to the range of the log."""

    requested: int
    start: int
    end: int

    @property
    def offset(self) -> int:
        return min(max(self.requested, self.start), self.end)

    @property
    def is_clamped(self) -> bool:
        return self.offset != self.requested


Targets: TypeAlias = Mapping[TopicPartition, Target]


@dataclass(frozen=True, slots=True)
class Goal:
    """The target of a move; exactly one of the four fields is set."""

    place: Start | None = None
    shift: int | None = None
    group: str | None = None
    offsets: Positions | None = None

    @property
    def names_partitions(self) -> bool:
        """Whether the goal itself selects the partitions to move."""
        return self.group is not None or self.offsets is not None


async def requested_offsets(
    client: ClusterClient,
    goal: Goal,
    bounds: Bounds,
    current: Positions,
    others: Positions,
    *,
    timeout_s: float,
) -> dict[TopicPartition, int | Refusal]:
    """The offset that the goal requests in each partition of `bounds`.

    `current` is the position of the group, `others` that of the group which the goal names.
    """
    if isinstance(goal.place, AtOffset):
        return dict.fromkeys(bounds, goal.place.offset)
    if goal.place is not None:
        return await resolve_positions(client, bounds, goal.place, timeout_s=timeout_s)
    if goal.shift is not None:
        return {each: current.get(each, start) + goal.shift for each, (start, _) in bounds.items()}
    named = goal.offsets if goal.offsets is not None else others
    return {each: named[each] for each in bounds}
