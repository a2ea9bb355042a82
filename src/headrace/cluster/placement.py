"""Which brokers hold a new partition: replicas spread evenly over brokers and racks. Pure.

Leaders and followers rotate, so that each broker leads about as many partitions as any other.
Replicas of one partition lie in different racks where there are enough of them. Fenced brokers
take part only where the live ones do not suffice, and never as leader.
"""

from collections.abc import Sequence
from random import Random

from headrace.cluster.outcome import Refused
from headrace.cluster.topology import Broker, Partition
from headrace.protocol.errors import ErrorCode


def new_partition(replicas: Sequence[int], live: frozenset[int]) -> Partition:
    """A partition in its first epoch: live replicas are in sync, the first of them leads.

    The caller has checked that at least one replica is live.
    """
    isr = tuple(id_ for id_ in replicas if id_ in live)
    return Partition(replicas=tuple(replicas), isr=isr, leader=isr[0])


def place(
    brokers: Sequence[Broker], *, count: int, replication_factor: int, rng: Random
) -> tuple[Partition, ...]:
    """`count` new partitions; raises `Refused` where the brokers do not suffice."""
    live = [broker for broker in brokers if not broker.fenced]
    problem: str | None = None
    if not live:
        problem = "All brokers are currently fenced."
    elif replication_factor > len(brokers):
        problem = (
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {len(brokers)} broker(s) are registered."
        )
    if problem is not None:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): {problem}",
        )
    live_ids = frozenset(broker.broker_id for broker in live)
    if len(brokers) == 1:
        # The embedded case: every partition is in the same state, so they are one object.
        return (new_partition((live[0].broker_id,), live_ids),) * count
    leaders = _by_rack_in_turn(live)
    spare = _by_rack_in_turn([broker for broker in brokers if broker.fenced])
    start, shift = rng.randrange(len(leaders)), rng.randrange(len(leaders))
    return tuple(
        new_partition(
            _replicas(leaders, spare, replication_factor, start + number, shift + number), live_ids
        )
        for number in range(count)
    )


def _by_rack_in_turn(brokers: Sequence[Broker]) -> list[int]:
    """Broker ids ordered so that neighbours lie in different racks as far as possible."""
    racks: dict[str | None, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        racks.setdefault(broker.rack, []).append(broker.broker_id)
    queues = [racks[rack] for rack in sorted(racks, key=lambda rack: (rack is not None, rack))]
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def _replicas(
    leaders: list[int], spare: list[int], replication_factor: int, first: int, shift: int
) -> list[int]:
    size = len(leaders)
    chosen = [leaders[first % size]]
    # The followers' distance from the leader grows by one each time the leaders come round, so
    # that the load of a dead leader spreads over all brokers and not on one neighbour.
    distance = 1 + (shift // size) % max(1, size - 1) if size > replication_factor else 1
    step = distance
    while len(chosen) < min(replication_factor, size):
        candidate = leaders[(first + step) % size]
        if candidate not in chosen:
            chosen.append(candidate)
        step += 1
    missing = replication_factor - len(chosen)
    return chosen + [spare[(first + number) % len(spare)] for number in range(missing)]
