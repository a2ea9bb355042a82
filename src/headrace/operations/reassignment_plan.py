"""Plans of reassignments: which partitions move to which brokers. Pure.

`balanced_plan` spreads partitions over brokers, `without_brokers` empties brokers, and
`with_replication_factor` adds or removes replicas. Each moves as few replicas as possible.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.client.admin.reassignments import Move
from headrace.client.metadata import TopicInfo
from headrace.client.results import TopicPartition
from headrace.operations.replica_balancing import CannotBalance, PlacedPartition, balance

Replicas = tuple[int, ...]
Placement = Mapping[TopicPartition, Replicas]
Racks = Mapping[int, str | None]
"""The live brokers, each with its rack."""


class CannotPlan(ValueError):
    """The plan is impossible; the message says why."""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One partition's replicas before and after."""

    partition: TopicPartition
    before: Replicas
    after: Replicas

    @property
    def copies(self) -> Replicas:
        """The brokers that have to copy the partition."""
        return tuple(broker for broker in self.after if broker not in self.before)


def placement_of(
    topics: Iterable[TopicInfo], under_way: Mapping[TopicPartition, Move]
) -> Placement:
    """The replicas of each partition; the target replicas if it is moving."""
    placed: dict[TopicPartition, Replicas] = {}
    for topic in topics:
        for index in sorted(topic.partitions):
            each = TopicPartition(topic.name, index)
            moving = under_way.get(each)
            placed[each] = topic.partitions[index].replicas if moving is None else moving.target
    return placed


def moves_between(now: Placement, plan: Placement) -> list[PlannedMove]:
    """The partitions that the plan changes. Every partition of the plan must exist."""
    return [
        PlannedMove(each, now[each], replicas)
        for each, replicas in plan.items()
        if replicas != now[each]
    ]


def broker_totals(placed: Placement) -> tuple[Counter[int], Counter[int]]:
    """For each broker, the number of its replicas and of its preferred leaders."""
    held = Counter(broker for replicas in placed.values() for broker in replicas)
    led = Counter(replicas[0] for replicas in placed.values() if replicas)
    return held, led


def balanced_plan(placed: Placement, racks: Racks) -> dict[TopicPartition, Replicas]:
    """Spreads these partitions evenly over the brokers in `racks`; raises `CannotPlan`."""
    try:
        planned = balance({PlacedPartition(*each): of for each, of in placed.items()}, racks)
    except CannotBalance as error:
        raise CannotPlan(str(error)) from error
    return {TopicPartition(*each): replicas for each, replicas in planned.items()}


def without_brokers(
    placed: Placement, racks: Racks, emptied: Sequence[int]
) -> dict[TopicPartition, Replicas]:
    """Moves every replica of the `emptied` brokers to the others. Other replicas stay.

    A new replica goes to the broker with the fewest replicas, if possible in a rack that the
    partition is not in. It takes the place of the old one in the order of replicas, so that
    preferred leaders are spread too.
    """
    gone = set(emptied)
    counts = Counter({broker: 0 for broker in racks if broker not in gone})
    for replicas in placed.values():
        counts.update(broker for broker in replicas if broker in counts)
    planned: dict[TopicPartition, Replicas] = {}
    for each, replicas in placed.items():
        if not gone & set(replicas):
            continue
        after = list(replicas)
        for place, broker in enumerate(replicas):
            if broker in gone:
                after[place] = _next_broker(each, after, counts, racks, gone)
                counts[after[place]] += 1
        planned[each] = tuple(after)
    return planned


def with_replication_factor(
    placed: Placement, racks: Racks, factor: int
) -> dict[TopicPartition, Replicas]:
    """Gives each partition `factor` replicas.

    New replicas go to the brokers with the fewest. Removed ones are the last in order, so the
    preferred leader stays; replicas of dead brokers are removed first.
    """
    if factor < 1:
        raise CannotPlan("a partition needs at least one replica")
    if factor > len(racks):
        raise CannotPlan(f"{factor} replicas need {factor} brokers, and {len(racks)} are live")
    counts = Counter(dict.fromkeys(racks, 0))
    for replicas in placed.values():
        counts.update(broker for broker in replicas if broker in counts)
    planned: dict[TopicPartition, Replicas] = {}
    for each, replicas in placed.items():
        after = list(replicas)
        while len(after) > factor:
            dead = [broker for broker in after if broker not in racks]
            removed = dead[-1] if dead else after[-1]
            after.remove(removed)
            counts[removed] -= 1
        while len(after) < factor:
            chosen = _next_broker(each, after, counts, racks, set())
            after.append(chosen)
            counts[chosen] += 1
        if tuple(after) != replicas:
            planned[each] = tuple(after)
    return planned


def _next_broker(
    partition: TopicPartition,
    replicas: Sequence[int],
    counts: Counter[int],
    racks: Racks,
    excluded: set[int],
) -> int:
    """The broker for one more replica: in an unused rack first, then with the fewest replicas."""
    stay = [broker for broker in replicas if broker not in excluded]
    used = {racks[broker] for broker in stay if racks.get(broker) is not None}
    free = [broker for broker in racks if broker not in excluded and broker not in replicas]
    if not free:
        raise CannotPlan(
            f"{partition} has {len(replicas)} replicas, and no other live broker can take one"
        )
    return min(free, key=lambda broker: (racks[broker] in used, counts[broker], broker))
