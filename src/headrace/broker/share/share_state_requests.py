"""Requests to the share coordinator: each partition is handled in its own shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.share_state.stored_state import SharePartitionKey

if TYPE_CHECKING:
    from headrace.broker.share.share_state_persister import ShareStateCoordinator
    from headrace.coordinator.share_state.share_state_shard import ShareStateShard


class NamedPartition(Protocol):
    """A partition of a request."""

    partition: int


P = TypeVar("P", bound=NamedPartition)
P_co = TypeVar("P_co", bound=NamedPartition, covariant=True)


class NamedTopic(Protocol[P_co]):
    """A topic of a request."""

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[P_co]: ...


class PartitionResult(Protocol):
    """The fields that every partition result has."""

    partition: int
    error_code: int
    error_message: str | None


R = TypeVar("R")
T = TypeVar("T", bound=PartitionResult)
Decide = Callable[["ShareStateShard", SharePartitionKey, P, int], CoordinatorResult[R]]


async def each_topic(
    coordinator: ShareStateCoordinator,
    group_id: str,
    topics: Iterable[NamedTopic[P]],
    decide: Decide[P, R],
    result: Callable[[], T],
    fill: Callable[[T, R], None] | None = None,
) -> list[tuple[bytes, list[T]]]:
    """The results of each topic in request order; none for a request without a group.

    `fill` copies the shard's answer to the result. If the shard refuses, the result gets its error.
    """
    if not group_id:
        return []
    return [
        (
            topic.topic_id,
            [
                _result(index, outcome, result, fill)
                for index, outcome in await _each_partition(coordinator, group_id, topic, decide)
            ],
        )
        for topic in topics
    ]


def _result(
    index: int,
    outcome: R | CoordinatorError,
    result: Callable[[], T],
    fill: Callable[[T, R], None] | None,
) -> T:
    filled = result()
    filled.partition = index
    if isinstance(outcome, CoordinatorError):
        filled.error_code, filled.error_message = outcome.code, str(outcome)
    elif fill is not None:
        fill(filled, outcome)
    return filled


async def _each_partition(
    coordinator: ShareStateCoordinator, group_id: str, topic: NamedTopic[P], decide: Decide[P, R]
) -> list[tuple[int, R | CoordinatorError]]:
    started = []
    for partition in topic.partitions:
        key = SharePartitionKey(group_id, bytes(topic.topic_id), partition.partition)

        def one(
            shard: ShareStateShard, now_ms: int, key: SharePartitionKey = key, asked: P = partition
        ) -> CoordinatorResult[R]:
            return decide(shard, key, asked, now_ms)

        started.append((partition.partition, coordinator.run(key.coordinator_key, one)))
    outcomes: list[tuple[int, R | CoordinatorError]] = []
    for index, running in started:
        try:
            outcomes.append((index, await running))
        except CoordinatorError as error:
            outcomes.append((index, error))
    return outcomes
