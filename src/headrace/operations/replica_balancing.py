"""Plans an even placement of partitions on a set of brokers. Pure.

As few replicas as possible move: a replica on a target broker stays there unless that broker has
too many of the topic. The replicas of each topic are spread evenly. Its leaders are spread by
changing only the order of replicas. A remainder goes to the broker with the smallest load from
other topics. A partition never ends up in fewer racks than before.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Replicas = tuple[int, ...]


class PlacedPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


Placement = Mapping[PlacedPartition, Replicas]


class CannotBalance(ValueError):
    """There are too few brokers; the message says for which partition."""


def balance(placed: Placement, racks: Mapping[int, str | None]) -> dict[PlacedPartition, Replicas]:
    """Places the same partitions on the brokers in `racks`, in the order of `placed`."""
    _check_broker_count(placed, racks)
    total = dict.fromkeys(racks, 0)
    leads = dict(total)
    planned: dict[PlacedPartition, Replicas] = {}
    for topic, partitions in _group_by_topic(placed).items():
        placement = _TopicPlacement({each: placed[each] for each in partitions}, racks)
        placement.replace_other_brokers(_target_counts(placement.size, total, placement.counts()))
        placement.even_out_replicas(_target_counts(placement.size, total, placement.counts()))
        placement.even_out_leaders(_target_counts(len(partitions), leads, placement.leaders()))
        for broker, count in placement.counts().items():
            total[broker] += count
        for broker, count in placement.leaders().items():
            leads[broker] += count
        planned.update(placement.replicas)
        assert all(each.topic == topic for each in placement.replicas)
    return {each: planned[each] for each in placed}


def changed(before: Placement, after: Placement) -> dict[PlacedPartition, Replicas]:
    """The partitions whose replicas, or the order of the replicas, differ."""
    return {each: after[each] for each in after if after[each] != before.get(each)}


def _check_broker_count(placed: Placement, racks: Mapping[int, str | None]) -> None:
    if not racks:
        raise CannotBalance("no broker to place partitions on")
    for each, replicas in placed.items():
        if len(replicas) > len(racks):
            raise CannotBalance(
                f"{each.topic}-{each.partition} has {len(replicas)} replicas, but there are only "
                f"{len(racks)} target brokers"
            )


def _group_by_topic(placed: Iterable[PlacedPartition]) -> dict[str, list[PlacedPartition]]:
    topics: dict[str, list[PlacedPartition]] = {}
    for each in placed:
        topics.setdefault(each.topic, []).append(each)
    return topics


def _target_counts(size: int, loads: Mapping[int, int], now: Mapping[int, int]) -> dict[int, int]:
    """The number of the `size` items that each broker should have.

    The remainder goes to the brokers with the least load, and among those to the brokers that have
    the most items already.
    """
    each, extra = divmod(size, len(loads))
    order = sorted(loads, key=lambda broker: (loads[broker], -now[broker], broker))
    return {broker: each + (place < extra) for place, broker in enumerate(order)}


class _TopicPlacement:
    """The replicas of one topic while they are being moved."""

    def __init__(
        self, placed: Mapping[PlacedPartition, Replicas], racks: Mapping[int, str | None]
    ) -> None:
        self.replicas = dict(placed)
        self._racks = racks
        self.size = sum(map(len, placed.values()))

    def counts(self) -> dict[int, int]:
        placed = Counter(broker for replicas in self.replicas.values() for broker in replicas)
        return {broker: placed[broker] for broker in self._racks}

    def leaders(self) -> dict[int, int]:
        first = Counter(replicas[0] for replicas in self.replicas.values() if replicas)
        return {broker: first[broker] for broker in self._racks}

    def replace_other_brokers(self, shares: Mapping[int, int]) -> None:
        """Moves every replica off the brokers that are not targets."""
        counts = self.counts()
        for each, replicas in self.replicas.items():
            for leaving in [broker for broker in replicas if broker not in self._racks]:
                candidates = [broker for broker in self._racks if broker not in self.replicas[each]]
                coming = max(
                    candidates,
                    key=lambda broker: (
                        self._count_racks(
                            _with_replica_replaced(self.replicas[each], leaving, broker)
                        ),
                        shares[broker] - counts[broker],
                        -broker,
                    ),
                )
                self.replicas[each] = _with_replica_replaced(self.replicas[each], leaving, coming)
                counts[coming] += 1

    def even_out_replicas(self, shares: Mapping[int, int]) -> None:
        """Moves replicas from brokers above their share to brokers below it."""
        counts = self.counts()
        for each in self.replicas:
            for leaving in self.replicas[each]:
                if counts[leaving] <= shares[leaving]:
                    continue
                coming = self._receiving_broker(each, leaving, shares, counts)
                if coming is not None:
                    self.replicas[each] = _with_replica_replaced(
                        self.replicas[each], leaving, coming
                    )
                    counts[leaving] -= 1
                    counts[coming] += 1

    def _receiving_broker(
        self,
        each: PlacedPartition,
        leaving: int,
        shares: Mapping[int, int],
        counts: Mapping[int, int],
    ) -> int | None:
        replicas = self.replicas[each]
        racks = self._count_racks(replicas)
        best: tuple[int, int, int] | None = None
        for broker in self._racks:
            if broker in replicas or counts[broker] >= shares[broker]:
                continue
            after = self._count_racks(_with_replica_replaced(replicas, leaving, broker))
            if after >= racks:
                best = max(best or (-1, 0, 0), (after, shares[broker] - counts[broker], -broker))
        return None if best is None else -best[2]

    def even_out_leaders(self, shares: Mapping[int, int]) -> None:
        """Reorders replicas: leadership moves away from brokers with too many leaders, through
        others if needed."""
        leads = self.leaders()
        while True:
            path = self._handover_chain(leads, shares)
            if path is None:
                return
            for each, leader in path:
                leads[self.replicas[each][0]] -= 1
                leads[leader] += 1
                rest = tuple(broker for broker in self.replicas[each] if broker != leader)
                self.replicas[each] = (leader, *rest)

    def _handover_chain(
        self, leads: Mapping[int, int], shares: Mapping[int, int]
    ) -> list[tuple[PlacedPartition, int]] | None:
        """The shortest chain of hand-overs from a broker above its share to one below it."""
        led: dict[int, list[PlacedPartition]] = {broker: [] for broker in self._racks}
        for each, replicas in self.replicas.items():
            led[replicas[0]].append(each)
        reached_from: dict[int, tuple[PlacedPartition, int] | None] = {
            broker: None for broker in self._racks if leads[broker] > shares[broker]
        }
        queue = list(reached_from)
        for broker in queue:
            if leads[broker] < shares[broker]:
                return _handovers_to(reached_from, broker)
            for each in led[broker]:
                for follower in self.replicas[each][1:]:
                    if follower not in reached_from:
                        reached_from[follower] = (each, broker)
                        queue.append(follower)
        return None

    def _count_racks(self, replicas: Sequence[int]) -> int:
        """The number of racks with one of these replicas, counting only target brokers."""
        return len({self._racks[broker] for broker in replicas if broker in self._racks})


def _with_replica_replaced(replicas: Replicas, leaving: int, coming: int) -> Replicas:
    return tuple(coming if broker == leaving else broker for broker in replicas)


def _handovers_to(
    reached_from: Mapping[int, tuple[PlacedPartition, int] | None], end: int
) -> list[tuple[PlacedPartition, int]]:
    """The hand-overs that lead to `end`, the last one first."""
    path = []
    at = end
    while (step := reached_from[at]) is not None:
        each, before = step
        path.append((each, at))
        at = before
    return path
