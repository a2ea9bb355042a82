"""The input and the output of an assignor."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id. A topic without partitions is not in it."""

NOTHING: Final[Assignment] = {}


def frozen_assignment(partitions: Mapping[bytes, set[int]], before: Assignment) -> Assignment:
    """Freezes the assignment; returns the same object as before if nothing has changed, because
    assignments are compared and kept for long."""
    if partitions == before:
        return before
    return {topic_id: frozenset(numbers) for topic_id, numbers in partitions.items()}


class MemberSpec(NamedTuple):
    """A member: its subscribed topics, and its partitions in the last target."""

    topics: frozenset[bytes]
    assigned: Assignment = NOTHING
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """Members by id, and the partition count of each topic. Every subscribed topic is in
    `partitions`; a member's last assignment may contain deleted topics."""

    members: Mapping[str, MemberSpec]
    partitions: Mapping[bytes, int]

    @property
    def homogeneous(self) -> bool:
        """Whether all members want the same topics."""
        specs = iter(self.members.values())
        first = next(specs).topics
        return all(spec.topics is first or spec.topics == first for spec in specs)


Assignor = Callable[[GroupSpec], Mapping[str, Assignment]]
"""Assignments by member id; a missing member has no partitions. Pure; never raises."""
