"""The progress of reassignments, by the sizes of the new replicas' logs."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.admin.log_dirs import describe_log_dirs
from headrace.client.client import ClusterClient
from headrace.client.errors import DeadlineExceeded
from headrace.client.results import TopicPartition

ANSWER_S: Final = 2.0
"""The time limit for one broker's answer about its progress."""


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
    """The progress of each partition, given the brokers that copy it.

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
