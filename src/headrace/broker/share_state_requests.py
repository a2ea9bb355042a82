"""Requests to the coordinator of share state: each partition is one turn in its own shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.coordinator.errors import CoordinatorError
from headrace.coordinator.turn import Turn
from headrace.share_state.state import SharePartitionKey

if TYPE_CHECKING:
    from headrace.broker.node import Broker
    from headrace.share_state.shard import ShareStateShard


class NamedPartition(Protocol):
    """A partition of a request."""

    partition: int


P = TypeVar("P", bound=NamedPartition)
R = TypeVar("R")


async def each_partition(
    broker: Broker,
    group_id: str,
    topic_id: bytes,
    partitions: Iterable[P],
    decide: Callable[[ShareStateShard, SharePartitionKey, P, int], Turn[R]],
) -> list[tuple[P, R | CoordinatorError]]:
    """The outcome for each partition, in the order of the request."""
    started = []
    for partition in partitions:
        key = SharePartitionKey(group_id, bytes(topic_id), partition.partition)

        def one(
            shard: ShareStateShard, now_ms: int, key: SharePartitionKey = key, asked: P = partition
        ) -> Turn[R]:
            return decide(shard, key, asked, now_ms)

        started.append((partition, broker.share_state.run(key.coordinator_key, one)))
    outcomes: list[tuple[P, R | CoordinatorError]] = []
    for partition, running in started:
        try:
            outcomes.append((partition, await running))
        except CoordinatorError as error:
            outcomes.append((partition, error))
    return outcomes
