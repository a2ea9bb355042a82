"""What `cluster reassign` plans, and how far a move is. Pure but for the questions it asks."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.cli.cluster.status import Overview
from headrace.cli.exits import CommandFailed, ExitCode, not_found, usage
from headrace.cli.id_ranges import parse_ids
from headrace.client.client import ClusterClient
from headrace.client.errors import DeadlineExceeded
from headrace.client.log_dirs import describe_log_dirs
from headrace.client.reassignments import Move
from headrace.client.results import TopicPartition
from headrace.cluster.replica_balancing import CannotBalance, PlacedPartition, balance

Replicas = tuple[int, ...]

ANSWER_S: Final = 2.0
"""How long a broker may take to say how much it has; progress is worth no more."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One partition's replicas before and after."""

    partition: TopicPartition
    before: Replicas
    after: Replicas

    @property
    def copies(self) -> Replicas:
        """Who has to copy the partition."""
        return tuple(broker for broker in self.after if broker not in self.before)


def balanced(
    overview: Overview, under_way: Mapping[TopicPartition, Move], to: Sequence[int] | None
) -> dict[TopicPartition, Replicas]:
    """A plan that spreads all partitions of the overview over these brokers, or all live ones."""
    live = {broker.id: broker.rack for broker in overview.cluster.live}
    for broker in to or ():
        if broker not in live:
            there_are = ", ".join(map(str, sorted(live))) or "none"
            raise CommandFailed(
                f"there is no live broker {broker} (live: {there_are})", ExitCode.NOT_FOUND
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
    """Where each partition is, or will be when its move has ended."""
    return {
        each: under_way[each].target if each in under_way else info.replicas
        for each, info in overview.partitions()
    }


def changes_of(
    now: Mapping[TopicPartition, Replicas], plan: Mapping[TopicPartition, Replicas]
) -> list[PlannedMove]:
    """What the plan changes; a partition that it names has to exist."""
    for each in plan:
        if each not in now:
            raise not_found("partition", str(each), map(str, now))
    return [
        PlannedMove(each, now[each], replicas)
        for each, replicas in plan.items()
        if replicas != now[each]
    ]


def broker_totals(placed: Mapping[TopicPartition, Replicas]) -> tuple[Counter[int], Counter[int]]:
    """How many replicas each broker holds, and how many partitions it leads by preference."""
    held = Counter(broker for replicas in placed.values() for broker in replicas)
    led = Counter(replicas[0] for replicas in placed.values() if replicas)
    return held, led


@dataclass(frozen=True, slots=True)
class Copied:
    """How much of a partition its new replicas have; the slowest of them counts."""

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
    """For each partition how far those who copy it are, by the size of their logs.

    Who does not answer has copied nothing, as far as can be known: it may well be what holds up
    the move, and whoever asks wants to see the others.
    """
    asked: dict[int, set[TopicPartition]] = {}
    for each, copying in moves.items():
        for broker in (*copying, leaders.get(each, -1)):
            if broker in client.metadata.brokers:
                asked.setdefault(broker, set()).add(each)
    answers = await asyncio.gather(
        *(
            _sizes(client, broker, sorted(partitions), timeout_s=min(timeout_s, ANSWER_S))
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


async def _sizes(
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
    """Who leads each, as the client's cache has it; without those that it does not know."""
    leaders = {}
    for each in partitions:
        topic = client.metadata.topic(each.topic)
        info = None if topic is None else topic.partitions.get(each.partition)
        if info is not None:
            leaders[each] = info.leader
    return leaders


def parse_brokers(text: str | None) -> list[int] | None:
    """`1,2,4-6` as ids; None where nothing was said."""
    return parse_ids(text, "brokers")


def parse_rate(text: str | None) -> int | None:
    """`50M` as bytes a second; k, M and G, with i for powers of 1024."""
    if text is None:
        return None
    lowered = text.strip().lower().removesuffix("/s").removesuffix("b")
    number = lowered.rstrip("kmgi")
    unit = lowered[len(number) :]
    try:
        rate = int(float(number) * _UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        rate = 0
    if rate <= 0:
        raise usage(f"--throttle takes bytes a second, as 50M or 800k, not {text!r}")
    return rate


def human(size: int) -> str:
    """Bytes for people."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
