"""The `simple` assignor: which members read from which partition of a share group.

With fewer members than partitions, each partition has one member. With more, partitions are shared
so that every member has one. Members keep their partitions as far as balance allows. Every
assignable partition that a member subscribes to has a member.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.coordinator.group.modern.assignor_spec import Assignment, GroupSpec, MemberSpec
from headrace.coordinator.group.share.state_topics import Partitions


class AssignablePartition(NamedTuple):
    topic_id: bytes
    number: int


def simple_assignor(group: GroupSpec, assignable: Partitions) -> Mapping[str, Assignment]:
    """Assignments by member id; only `assignable` partitions are assigned."""
    if not group.members:
        return {}
    result: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in group.members}
    if group.homogeneous:
        wanted = next(iter(group.members.values())).topics
        _spread(group.members, _targets(wanted, group, assignable), result)
    else:
        for topic_id in group.partitions:
            readers = {id_: one for id_, one in group.members.items() if topic_id in one.topics}
            _spread(readers, _targets([topic_id], group, assignable), result)
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in topics.items()}
        for member_id, topics in result.items()
    }


def _targets(
    topic_ids: frozenset[bytes] | list[bytes], group: GroupSpec, assignable: Partitions
) -> list[AssignablePartition]:
    return [
        AssignablePartition(topic_id, index)
        for topic_id in sorted(topic_ids)
        for index in sorted(assignable.get(topic_id, ()))
        if index < group.partitions.get(topic_id, 0)
    ]


def _spread(
    members: Mapping[str, MemberSpec],
    targets: list[AssignablePartition],
    result: dict[str, dict[bytes, set[int]]],
) -> None:
    """Assigns the partitions to the members, and adds that to `result`."""
    if not targets or not members:
        return
    sharing = -(-len(members) // len(targets))
    quotas = _quotas(list(members), sharing * len(targets))
    readers: dict[AssignablePartition, set[str]] = {target: set() for target in targets}
    counts = dict.fromkeys(members, 0)
    for member_id, member in members.items():
        for target in targets:
            if (
                counts[member_id] < quotas[member_id]
                and target.number in member.assigned.get(target.topic_id, ())
                and len(readers[target]) < sharing
            ):
                readers[target].add(member_id)
                counts[member_id] += 1
    _fill(readers, counts, quotas, sharing)
    for target, chosen in readers.items():
        for member_id in chosen:
            result[member_id].setdefault(target.topic_id, set()).add(target.number)


def _quotas(members: list[str], total: int) -> dict[str, int]:
    """Distributes `total` assignments as evenly as whole numbers allow."""
    size = len(members)
    return {
        member_id: -(-total * (place + 1) // size) - -(-total * place // size)
        for place, member_id in enumerate(members)
    }


def _fill(
    readers: dict[AssignablePartition, set[str]],
    counts: dict[str, int],
    quotas: dict[str, int],
    sharing: int,
) -> None:
    """Partitions with the fewest readers first, members with the most unused quota first."""
    for level in range(1, sharing + 1):
        for chosen in readers.values():
            if len(chosen) >= level:
                continue
            able = [id_ for id_ in counts if id_ not in chosen]
            roomy = [id_ for id_ in able if counts[id_] < quotas[id_]]
            # The last rounds may find only members that have the partition; every partition has a
            # member.
            pool = roomy or (able if level == 1 else [])
            if pool:
                member_id = max(pool, key=lambda id_: quotas[id_] - counts[id_])
                chosen.add(member_id)
                counts[member_id] += 1
