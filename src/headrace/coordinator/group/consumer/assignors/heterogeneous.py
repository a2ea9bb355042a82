"""The uniform assignor for members with different subscriptions.

First every member keeps the partitions that it has and still wants. Then each free partition goes
to the subscriber with the fewest partitions, starting with the topics that have the most partitions
for each subscriber. Then partitions move, topic by topic, from the subscriber with the most to the
one with the fewest, until no move makes the shares more equal.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace
from typing import Final

from headrace.coordinator.group.modern.assignor_spec import Assignment, GroupSpec, frozen_assignment

_MAX_ROUNDS: Final = 64
"""Rounds over all topics. Each move makes the shares more equal, so balancing ends, mostly after
two rounds. The limit bounds the time in the worst case."""


def assign_mixed(group: GroupSpec) -> dict[str, Assignment]:
    """Assigns every partition of a subscribed topic to one of its subscribers."""
    return _Mixed(group).assign()


class _Mixed:
    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._load = dict.fromkeys(group.members, 0)
        self._subscribers: dict[bytes, list[str]] = {}
        for member_id, spec in group.members.items():
            for topic_id in spec.topics:
                self._subscribers.setdefault(topic_id, []).append(member_id)
        # The owner of each partition of each topic; None for a free one.
        self._owners: dict[bytes, list[str | None]] = {
            topic_id: [None] * group.partitions[topic_id]
            for topic_id in sorted(self._subscribers, key=self._choice)
        }

    def _choice(self, topic_id: bytes) -> tuple[float, int, bytes]:
        """Topics with the most partitions for each subscriber come first."""
        subscribers = len(self._subscribers[topic_id])
        return (-self._group.partitions[topic_id] / subscribers, subscribers, topic_id)

    def assign(self) -> dict[str, Assignment]:
        self._keep()
        for topic_id, owners in self._owners.items():
            self._assign_free(self._subscribers[topic_id], owners)
        shared = [id_ for id_, members in self._subscribers.items() if len(members) > 1]
        shared.sort(key=self._choice)
        for _ in range(_MAX_ROUNDS):
            if not sum(self._balance(topic_id) for topic_id in shared):
                break
        return self._assignments()

    def _keep(self) -> None:
        for member_id, spec in self._group.members.items():
            for topic_id, partitions in spec.assigned.items():
                if topic_id not in spec.topics:
                    continue
                owners = self._owners[topic_id]
                for partition in partitions:
                    if partition < len(owners) and owners[partition] is None:
                        owners[partition] = member_id
                        self._load[member_id] += 1

    def _assign_free(self, subscribers: Iterable[str], owners: list[str | None]) -> None:
        if None not in owners:
            return
        heap = [(self._load[member_id], member_id) for member_id in subscribers]
        heapify(heap)
        for partition, owner in enumerate(owners):
            if owner is None:
                load, member_id = heap[0]
                owners[partition] = member_id
                self._load[member_id] = load + 1
                heapreplace(heap, (load + 1, member_id))

    def _balance(self, topic_id: bytes) -> int:
        """Moves partitions of one topic; returns how many."""
        load = self._load
        loads = [load[member_id] for member_id in self._subscribers[topic_id]]
        if max(loads) - min(loads) <= 1:
            return 0
        owners = self._owners[topic_id]
        owned: dict[str, list[int]] = {}
        for partition, owner in enumerate(owners):
            assert owner is not None
            owned.setdefault(owner, []).append(partition)
        givers = [(-load[member_id], member_id) for member_id in owned]
        takers = [(load[member_id], member_id) for member_id in self._subscribers[topic_id]]
        heapify(givers)
        heapify(takers)
        moves = 0
        while givers:
            (most, giver), (least, taker) = givers[0], takers[0]
            # Loads change while members wait in the heaps: an entry counts when it is current.
            if -most != load[giver]:
                heapreplace(givers, (-load[giver], giver))
            elif least != load[taker]:
                heapreplace(takers, (load[taker], taker))
            elif -most - least <= 1:
                break
            else:
                owners[owned[giver].pop()] = taker
                load[giver] -= 1
                load[taker] += 1
                moves += 1
                if not owned[giver]:
                    heappop(givers)
        return moves

    def _assignments(self) -> dict[str, Assignment]:
        partitions: dict[str, dict[bytes, set[int]]] = {id_: {} for id_ in self._group.members}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assert owner is not None
                partitions[owner].setdefault(topic_id, set()).add(partition)
        return {
            member_id: frozen_assignment(numbers, self._group.members[member_id].assigned)
            for member_id, numbers in partitions.items()
        }
