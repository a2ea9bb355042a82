"""Plans of `cluster reassign`, and the progress of moves."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.cli.cluster.status import Overview
from headrace.cli.error_messages import not_found
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.id_ranges import parse_ids
from headrace.client.admin.log_dirs import describe_log_dirs
from headrace.client.admin.reassignments import Move
from headrace.client.client import ClusterClient
from headrace.client.errors import DeadlineExceeded
from headrace.client.results import TopicPartition
from headrace.cluster.replica_balancing import CannotBalance, PlacedPartition, balance

Replicas = tuple[int, ...]

ANSWER_S: Final = 2.0
"""The time limit for one broker's answer about its progress."""


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


def balanced(
    overview: Overview, under_way: Mapping[TopicPartition, Move], to: Sequence[int] | None
) -> dict[TopicPartition, Replicas]:
    """A plan that spreads the overview's partitions over brokers; over all live ones if None."""
    live = {broker.id: broker.rack for broker in overview.cluster.live}
    for broker in to or ():
        if broker not in live:
            there_are = ", ".join(map(str, sorted(live))) or "none"
            raise CommandFailed(
                f"broker {broker} is not live (live: {there_are})", ExitCode.NOT_FOUND
            )
    racks = {id_: rack for id_, rack in live.items() if to is None or id_ in to}
    placed = {
        PlacedPartition(*each): replicas
        for each, replicas in replicas_of(overview, under_way).items()
    }
    try:
        planned = balance(placed, racks)
    except CannotBalance as error:
        raise CommandFailed(str(error)) from error
    return {TopicPartition(*each): replicas for each, replicas in planned.items()}


def replicas_of(
    overview: Overview, under_way: Mapping[TopicPartition, Move]
) -> dict[TopicPartition, Replicas]:
    """The replicas of each partition; the target replicas if it is moving."""
    return {
        each: under_way[each].target if each in under_way else info.replicas
        for each, info in overview.partitions()
    }


def changes_of(
    now: Mapping[TopicPartition, Replicas], plan: Mapping[TopicPartition, Replicas]
) -> list[PlannedMove]:
    """The changes of the plan. Raises `CommandFailed` for an unknown partition."""
    for each in plan:
        if each not in now:
            raise not_found("partition", str(each), map(str, now))
    return [
        PlannedMove(each, now[each], replicas)
        for each, replicas in plan.items()
        if replicas != now[each]
    ]


def broker_totals(placed: Mapping[TopicPartition, Replicas]) -> tuple[Counter[int], Counter[int]]:
    """For each broker, the number of its replicas and of its preferred leaders."""
    held = Counter(broker for replicas in placed.values() for broker in replicas)
    led = Counter(replicas[0] for replicas in placed.values() if replicas)
    return held, led


@dataclass(frozen=True, slots=True)
class Copied:
    """The bytes of a partition that its slowest new replica has copied."""

    bytes: int
    of: int

    @property
    def percent(self) -> int:
        return 100 if self.of <= 0 else min(100, self.bytes * 100 // self.of)


async def copied(
    client: ClusterClient,
    moves: Mapping[TopicPartition, Sequence[int]],
    leaders: Mapping[TopicPartition, int],
    *,
    timeout_s: float,
) -> dict[TopicPartition, Copied]:
    """The progress of each partition, by the size of the new replicas' logs.

    A broker that does not answer counts as having copied nothing. It may be the one that blocks the
    move, so the progress of the others is still shown.
    """
    asked: dict[int, set[TopicPartition]] = {}
    for each, copying in moves.items():
        for broker in (*copying, leaders.get(each, -1)):
            if broker in client.metadata.brokers:
                asked.setdefault(broker, set()).add(each)
    answers = await asyncio.gather(
        *(
            _log_sizes(client, broker, sorted(partitions), timeout_s=min(timeout_s, ANSWER_S))
            for broker, partitions in sorted(asked.items())
        )
    )
    sizes = {
        (broker, each): size
        for broker, found in zip(sorted(asked), answers, strict=True)
        for each, size in found.items()
    }
    progress = {}
    for each, copying in moves.items():
        whole = sizes.get((leaders.get(each, -1), each), 0)
        least = min((sizes.get((broker, each), 0) for broker in copying), default=whole)
        progress[each] = Copied(min(least, whole), whole)
    return progress


async def _log_sizes(
    client: ClusterClient, broker: int, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> dict[TopicPartition, int]:
    try:
        found = await describe_log_dirs(client, [broker], partitions, timeout_s=timeout_s)
    except DeadlineExceeded:
        return {}
    return {
        each: replica.bytes
        for directory in found[broker]
        for each, replica in directory.replicas.items()
        if not replica.is_future
    }


def leaders_of(
    client: ClusterClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The leaders in the client's metadata cache; unknown partitions are left out."""
    leaders = {}
    for each in partitions:
        topic = client.metadata.topic(each.topic)
        info = None if topic is None else topic.partitions.get(each.partition)
        if info is not None:
            leaders[each] = info.leader
    return leaders


def parse_brokers(text: str | None) -> list[int] | None:
    """`1,2,4-6` as broker ids; None if the option was not given."""
    return parse_ids(text, "brokers")
