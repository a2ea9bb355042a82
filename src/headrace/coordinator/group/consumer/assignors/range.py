"""The range assignor: every subscriber of a topic gets one run of consecutive partitions.

Members with the same subscriptions get the same partition numbers of every topic, so topics with
equal partition counts are co-partitioned. Static members come first, by instance id: their ranges
survive a restart, which changes the member id. Apart from that it is not sticky.
"""

from collections.abc import Mapping

from headrace.coordinator.group.modern.assignor_spec import Assignment, GroupSpec


def assign_ranges(group: GroupSpec) -> Mapping[str, Assignment]:
    """Shares of each topic that differ by at most one partition."""
    subscribers: dict[bytes, list[str]] = {}
    for member_id in _in_order(group):
        for topic_id in group.members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    assignments: dict[str, dict[bytes, frozenset[int]]] = {id_: {} for id_ in group.members}
    for topic_id, member_ids in subscribers.items():
        share, larger_shares = divmod(group.partitions[topic_id], len(member_ids))
        start = 0
        for position, member_id in enumerate(member_ids):
            end = start + share + (position < larger_shares)
            if end > start:
                assignments[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return assignments


def _in_order(group: GroupSpec) -> list[str]:
    def key(member_id: str) -> tuple[bool, str]:
        instance_id = group.members[member_id].instance_id
        return (True, member_id) if instance_id is None else (False, instance_id)

    return sorted(group.members, key=key)
