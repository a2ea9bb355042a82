"""The uniform assignor: members have equal numbers of partitions, and keep those that they have.

If all members want the same topics, shares differ by at most one, and no other assignment with such
shares moves fewer partitions. If they want different topics, `heterogeneous` assigns them. Racks
are ignored, as in Kafka 4.
"""

from collections.abc import Iterator, Mapping

from headrace.coordinator.group.consumer.assignors.heterogeneous import assign_mixed
from headrace.coordinator.group.modern.assignor_spec import Assignment, GroupSpec, frozen_assignment


def assign_uniformly(group: GroupSpec) -> Mapping[str, Assignment]:
    """Equal shares, with as few moves as possible."""
    if not group.members:
        return {}
    if group.homogeneous:
        return _Homogeneous(group).assign()
    return assign_mixed(group)


class _Homogeneous:
    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._topics = next(iter(group.members.values())).topics
        total = sum(group.partitions[topic_id] for topic_id in self._topics)
        self._share, self._larger_shares = divmod(total, len(group.members))
        self._taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in self._topics}

    def assign(self) -> dict[str, Assignment]:
        kept = {
            member_id: self._keep(spec.assigned) for member_id, spec in self._group.members.items()
        }
        free = self._free()
        # The larger shares that are left go to the first members that can get another partition.
        for partitions in kept.values():
            size = _size(partitions)
            if size > self._share:
                continue
            quota = self._share - size
            if self._larger_shares > 0:
                self._larger_shares -= 1
                quota += 1
            _assign_free(partitions, free, quota)
        return {
            member_id: frozen_assignment(partitions, self._group.members[member_id].assigned)
            for member_id, partitions in kept.items()
        }

    def _keep(self, assigned: Assignment) -> dict[bytes, set[int]]:
        """The number of partitions that a member may keep: its share, or one more while larger
        shares are left."""
        kept: dict[bytes, set[int]] = {}
        quota = self._share + (self._larger_shares > 0)
        for topic_id, partitions in assigned.items():
            taken = self._taken.get(topic_id)
            if taken is None or quota == 0:
                continue
            count = self._group.partitions[topic_id]
            allowed = {p for p in partitions if p < count and p not in taken}
            if len(allowed) > quota:
                allowed = set(sorted(allowed)[:quota])
            if allowed:
                kept[topic_id] = allowed
                taken |= allowed
                quota -= len(allowed)
        if quota == 0 and self._larger_shares > 0:
            self._larger_shares -= 1
        return kept

    def _free(self) -> Iterator[tuple[bytes, int]]:
        """Partitions that no member has kept, topic by topic."""
        for topic_id in sorted(self._topics):
            taken = self._taken[topic_id]
            for partition in range(self._group.partitions[topic_id]):
                if partition not in taken:
                    yield topic_id, partition


def _size(partitions: Mapping[bytes, set[int]]) -> int:
    return sum(map(len, partitions.values()))


def _assign_free(
    partitions: dict[bytes, set[int]], free: Iterator[tuple[bytes, int]], quota: int
) -> None:
    for _ in range(quota):
        topic_id, partition = next(free)
        partitions.setdefault(topic_id, set()).add(partition)
