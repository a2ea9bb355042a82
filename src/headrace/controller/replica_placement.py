"""Which brokers hold a new partition: replicas spread evenly over brokers and racks. Pure.

Leaders and followers rotate, so that each broker leads about as many partitions as any other.
Replicas of one partition are in different racks if there are enough racks. Fenced brokers and
brokers in controlled shutdown are used only if the others are too few, and never as leader.
"""

from collections.abc import Collection, Mapping, Sequence
from random import Random

from headrace.cluster.topology import BrokerRegistration, Partition
from headrace.controller.result import Refused
from headrace.protocol.errors import ErrorCode


def new_partition(replicas: Sequence[int], live: frozenset[int]) -> Partition:
    """A partition in its first epoch: live replicas are in sync, the first of them leads.

    The caller has checked that at least one replica is live.
    """
    isr = tuple(id_ for id_ in replicas if id_ in live)
    return Partition(replicas=tuple(replicas), isr=isr, leader=isr[0])


def place(
    brokers: Sequence[BrokerRegistration], *, count: int, replication_factor: int, rng: Random
) -> tuple[Partition, ...]:
    """`count` new partitions; raises `Refused` if there are too few brokers."""
    live = [broker for broker in brokers if broker.is_available]
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
    leaders = _alternate_racks(live)
    spare = _alternate_racks([broker for broker in brokers if not broker.is_available])
    start, round_ = rng.randrange(len(leaders)), rng.randrange(len(leaders))
    return tuple(
        new_partition(
            _replicas(
                leaders, spare, replication_factor, start + number, round_ + number // len(leaders)
            ),
            live_ids,
        )
        for number in range(count)
    )


def assigned_partition(
    brokers: Mapping[int, BrokerRegistration],
    index: int,
    replicas: Sequence[int],
    factor: int | None,
) -> Partition:
    """A partition on the requested brokers; `factor` is that of the existing partitions."""
    check_assignment(replicas, brokers, factor)
    live = frozenset(id_ for id_ in replicas if brokers[id_].is_available)
    if not live:
        raise bad_assignment(
            f"All brokers specified in the manual partition assignment for partition {index} "
            "are fenced or in controlled shutdown."
        )
    return new_partition(replicas, live)


def check_assignment(
    replicas: Sequence[int], known: Collection[int], factor: int | None = None
) -> None:
    """Checks that a manual assignment has registered brokers, each once; raises `Refused`."""
    prefix = "The manual partition assignment includes"
    if not replicas:
        raise bad_assignment(f"{prefix} an empty replica list.")
    previous: int | None = None
    for id_ in sorted(replicas):
        if id_ not in known:
            raise bad_assignment(f"{prefix} broker {id_}, but no such broker is registered.")
        if id_ == previous:
            raise bad_assignment(f"{prefix} the broker {id_} more than once.")
        previous = id_
    if factor is not None and len(replicas) != factor:
        raise bad_assignment(
            f"{prefix} a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {factor} replica(s)."
        )


def bad_assignment(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _alternate_racks(brokers: Sequence[BrokerRegistration]) -> list[BrokerRegistration]:
    """Brokers ordered so that neighbours lie in different racks as far as possible."""
    racks: dict[str, list[BrokerRegistration]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        racks.setdefault(broker.rack or "", []).append(broker)
    queues = [racks[rack] for rack in sorted(racks)]
    longest = max(map(len, queues), default=0)
    return [queue[at] for at in range(longest) for queue in queues if at < len(queue)]


def _replicas(
    leaders: list[BrokerRegistration],
    spare: list[BrokerRegistration],
    replication_factor: int,
    first: int,
    round_: int,
) -> list[int]:
    size = len(leaders)
    # The followers' distance from the leader grows by one each time the leaders have rotated
    # through all brokers, so that the load of a dead leader spreads over all brokers and not on one
    # neighbour.
    distance = 1 + round_ % max(1, size - 1)
    others = [leaders[(first + distance + step) % size] for step in range(size)]
    fenced = [spare[(first + step) % len(spare)] for step in range(len(spare))]
    chosen = [leaders[first % size]]
    racks = {chosen[0].rack}
    # Two passes: brokers in unused racks first, then the remaining ones.
    for new_rack_only in (True, False):
        for candidate in others:
            if len(chosen) == replication_factor:
                break
            if candidate not in chosen and not (new_rack_only and candidate.rack in racks):
                chosen.append(candidate)
                racks.add(candidate.rack)
    chosen += fenced[: replication_factor - len(chosen)]
    return [broker.broker_id for broker in chosen]
